#!lua flags=allow-oom
-- A row, the members of a sorted set, and the row of each.
-- KEYS: the row, the set. ARGV: what the keys of the members' rows begin with.
local members = redis.call('ZRANGE', KEYS[2], 0, -1)
local rows = {}
for i, member in ipairs(members) do rows[i] = redis.call('GET', ARGV[1] .. member) end
return {redis.call('GET', KEYS[1]), members, rows}
