#!lua flags=allow-oom
-- Deletes rows of the past; how many they were. Sessions whose owners hold something stay.
-- ARGV: what all keys begin with, the set of the rows by their time, how old in microseconds, the limit.
local prefix, kind, limit = ARGV[1], ARGV[2], tonumber(ARGV[4])
local time = redis.call('TIME')
local cutoff = string.format('%.0f', time[1] * 1000000 + time[2] - tonumber(ARGV[3]))
local delete = {
  ended = function(id) redis.call('DEL', prefix .. 'r:' .. id) end,
  sessions = function(owner) redis.call('DEL', prefix .. 'o:' .. owner) end,
  changes = function(name, change) redis.call('ZREM', prefix .. 'history:' .. name, change) end,
  shown = function(name, process) redis.call('HDEL', prefix .. 'waiting:' .. name, process) end,
}
local gone, kept = 0, 0
while gone < limit do
  local members = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', cutoff, 'LIMIT', kept, math.min(limit - gone, 1000))
  if #members == 0 then break end
  for _, member in ipairs(members) do
    if kind == 'sessions' and redis.call('EXISTS', prefix .. 'of:' .. member) == 1 then
      kept = kept + 1
    else
      delete[kind](member:match('^([^%z]*)%z?(.*)$'))
      redis.call('ZREM', KEYS[1], member)
      gone = gone + 1
    end
  end
end
return gone
