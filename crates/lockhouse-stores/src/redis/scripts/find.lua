#!lua flags=allow-oom
-- The scores of a range of a sorted set, and a row for each: that of the last part of the member, behind a zero byte if it has several.
-- KEYS: the set. ARGV: what the keys of the rows begin with; by what, from, to; the limit.
local found = redis.call('ZRANGE', KEYS[1], ARGV[3], ARGV[4], ARGV[2], 'LIMIT', 0, ARGV[5])
local scores, rows = {}, {}
for i, member in ipairs(found) do
  scores[i] = redis.call('ZSCORE', KEYS[1], member)
  rows[i] = redis.call('GET', ARGV[1] .. member:match('[^%z]*$')) or ''
end
return {scores, rows}
