#!lua flags=allow-oom
-- Some members of a sorted set, each with its row, and the cursor of the next.
-- KEYS: the set. ARGV: what the keys of the rows begin with, the cursor, about how many.
local found = redis.call('ZSCAN', KEYS[1], ARGV[2], 'COUNT', ARGV[3])
local rows = {}
for i = 1, #found[2], 2 do
  local member = found[2][i]
  rows[#rows + 1] = {member, redis.call('GET', ARGV[1] .. member) or ''}
end
return {found[1], rows}
