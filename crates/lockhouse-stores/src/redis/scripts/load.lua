#!lua flags=allow-oom
-- The clock in microseconds, and the value of each key; an empty one for a key that is not there.
local time = redis.call('TIME')
local values = {}
for first = 1, #KEYS, 1000 do
  local some = redis.call('MGET', unpack(KEYS, first, math.min(first + 999, #KEYS)))
  for i = 1, #some do values[first + i - 1] = some[i] or '' end
end
return {time[1] * 1000000 + time[2], values}
