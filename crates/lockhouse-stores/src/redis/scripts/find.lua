#!lua flags=allow-oom
-- What a command finds in a sorted set, and the row of each member.
--
-- ARGV: what the keys of the rows begin with, and the command. A member that has several parts ends in the name of the row, after a zero
-- byte. Answers the members, their scores if the command gives them, and the rows.
local found = redis.call(unpack(ARGV, 2))
local step = ARGV[#ARGV] == 'WITHSCORES' and 2 or 1
local members, scores, rows = {}, {}, {}
for i = 1, #found, step do
  members[#members + 1] = found[i]
  if step == 2 then scores[#scores + 1] = found[i + 1] end
  rows[#members] = redis.call('GET', ARGV[1] .. found[i]:match('[^%z]*$'))
end
return {members, scores, rows}
