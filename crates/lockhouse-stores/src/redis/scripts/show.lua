#!lua flags=allow-oom
-- Writes the lists of waiters of a process, each with the time, and deletes others.
-- ARGV: what all keys begin with, the process, how many lists, a semaphore and a list each; the semaphores of those to delete.
local prefix, process, lists = ARGV[1], ARGV[2], tonumber(ARGV[3])
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000000 + time[2])
for at = 4, 2 + 2 * lists, 2 do
  redis.call('HSET', prefix .. 'waiting:' .. ARGV[at], process, now .. ' ' .. ARGV[at + 1])
  redis.call('ZADD', prefix .. 'shown', now, ARGV[at] .. '\0' .. process)
end
for at = 4 + 2 * lists, #ARGV do
  redis.call('HDEL', prefix .. 'waiting:' .. ARGV[at], process)
  redis.call('ZREM', prefix .. 'shown', ARGV[at] .. '\0' .. process)
end
