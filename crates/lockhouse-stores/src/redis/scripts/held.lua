#!lua flags=allow-oom
-- A row; of some members of a sorted set, in order, the row and the score in another set, or nothing for one that is not in
-- that; and the score of the last of them.
-- KEYS: the row, the two sets. ARGV: what the keys of the members' rows begin with, the least score, at most how many.
local members = redis.call('ZRANGE', KEYS[2], ARGV[2], '+inf', 'BYSCORE', 'LIMIT', 0, ARGV[3])
local rows = {}
for i, member in ipairs(members) do
  rows[i] = {redis.call('GET', ARGV[1] .. member) or '', redis.call('ZSCORE', KEYS[3], member)}
end
local last = #members > 0 and redis.call('ZSCORE', KEYS[2], members[#members])
return {redis.call('GET', KEYS[1]) or '', rows, last}
