#!lua flags=allow-oom
-- Runs commands if it is not too late and each key has the value that it is taken to have; whether it did. Nothing is
-- known here of what the keys mean.
--
-- ARGV: the latest time in microseconds, the key of a counter, how many numbers to draw from it, the values of KEYS (empty
-- for a key that is not there), and then the commands, each after the count of its words. NUMBER key n member stands for ZADD with the
-- n-th of the numbers that were drawn as the score.
local time = redis.call('TIME')
if time[1] * 1000000 + time[2] > tonumber(ARGV[1]) then return 0 end
for i = 1, #KEYS do
  if (redis.call('GET', KEYS[i]) or '') ~= ARGV[3 + i] then return 0 end
end
local drawn = tonumber(ARGV[3])
local base = 0
if drawn > 0 then base = redis.call('INCRBY', ARGV[2], drawn) - drawn end
local at = 4 + #KEYS
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  if ARGV[at + 1] == 'NUMBER' then
    local number = string.format('%.0f', base + tonumber(ARGV[at + 3]))
    redis.call('ZADD', ARGV[at + 2], number, ARGV[at + 4])
  else
    redis.call(unpack(ARGV, at + 1, at + words))
  end
  at = at + words + 1
end
return 1
