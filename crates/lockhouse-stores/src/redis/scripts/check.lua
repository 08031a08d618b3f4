#!lua flags=allow-oom
-- The row of each name that is in a sorted set; nothing for one that is in it no more.
-- KEYS: the set. ARGV: what the keys of the rows begin with, and the names.
local rows = {}
for i = 2, #ARGV do
  rows[i - 1] = ''
  if redis.call('ZSCORE', KEYS[1], ARGV[i]) then
    rows[i - 1] = redis.call('GET', ARGV[1] .. ARGV[i]) or 'missing'
  end
end
return rows
