#!lua
-- Deletes rows of the past; how many they were.
-- ARGV: what all keys begin with, which rows, how old in microseconds, the limit.
local prefix, limit = ARGV[1], tonumber(ARGV[4])
local time = redis.call('TIME')
local cutoff = string.format('%.0f', time[1] * 1000000 + time[2] - tonumber(ARGV[3]))
local gone = 0
local function oldest(key, skipped, count)
  return redis.call('ZRANGEBYSCORE', prefix .. key, '-inf', cutoff, 'LIMIT', skipped, count)
end
if ARGV[2] == 'requests' then
  for _, id in ipairs(oldest('ended', 0, limit)) do
    redis.call('DEL', prefix .. 'r:' .. id)
    redis.call('ZREM', prefix .. 'ended', id)
    gone = gone + 1
  end
elseif ARGV[2] == 'changes' then
  for _, member in ipairs(oldest('changes', 0, limit)) do
    local name, change = member:match('^([^%z]*)%z(.*)$')
    redis.call('ZREM', prefix .. 'history:' .. name, change)
    redis.call('ZREM', prefix .. 'changes', member)
    gone = gone + 1
  end
elseif ARGV[2] == 'sessions' then
  local kept = 0
  while gone < limit do
    local owners = oldest('sessions', kept, 1000)
    for _, owner in ipairs(owners) do
      if gone == limit then break end
      if redis.call('EXISTS', prefix .. 'of:' .. owner) == 1 then
        kept = kept + 1
      else
        redis.call('DEL', prefix .. 'o:' .. owner)
        redis.call('ZREM', prefix .. 'sessions', owner)
        gone = gone + 1
      end
    end
    if #owners < 1000 then break end
  end
elseif ARGV[2] == 'shown' then
  for _, member in ipairs(oldest('shown', 0, limit)) do
    local name, process = member:match('^([^%z]*)%z(.*)$')
    redis.call('HDEL', prefix .. 'waiting:' .. name, process)
    redis.call('ZREM', prefix .. 'shown', member)
    gone = gone + 1
  end
end
return gone
