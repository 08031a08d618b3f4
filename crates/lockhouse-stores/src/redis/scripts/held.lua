#!lua flags=allow-oom
-- A row, the members of a sorted set, the row of each, and its score in another set; nothing for one that is not in that.
-- KEYS: the row, the two sets. ARGV: what the keys of the members' rows begin with.
local members = redis.call('ZRANGE', KEYS[2], 0, -1)
local rows, scores = {}, {}
for i, member in ipairs(members) do
  rows[i] = redis.call('GET', ARGV[1] .. member)
  scores[i] = redis.call('ZSCORE', KEYS[3], member) or ''
end
return {redis.call('GET', KEYS[1]), members, rows, scores}
