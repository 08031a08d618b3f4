#!lua flags=allow-oom
-- A row, and the row of each member of a sorted set with its score in another; nothing for one that is not in that.
-- KEYS: the row, the two sets. ARGV: what the keys of the members' rows begin with.
local rows = {}
for i, member in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
  rows[i] = {redis.call('GET', ARGV[1] .. member) or '', redis.call('ZSCORE', KEYS[3], member)}
end
return {redis.call('GET', KEYS[1]) or '', rows}
