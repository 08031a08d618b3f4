#!lua flags=allow-oom
-- The rows of live requests whose time has passed, or whose owner's session has.
--
-- ARGV: what all keys begin with, the time, the time by which lapsed sessions are left out, the limit, and the
-- semaphores that are asked for; none for all. Sessions whose silence has ended something lapsed at 0, and are never left out.
local prefix, now, left_out, limit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local ids, seen = {}, {}
local function add(found)
  for _, member in ipairs(found) do
    local id = member:match('[^%z]*$')
    if not seen[id] and #ids < limit then
      seen[id] = true
      ids[#ids + 1] = id
    end
  end
end
local function expired(key)
  add(redis.call('ZRANGEBYSCORE', key, '-inf', now, 'LIMIT', 0, limit))
end
local function below(key, part)
  add(redis.call('ZRANGEBYLEX', key, '[' .. part .. '\0', '(' .. part .. '\1', 'LIMIT', 0, limit))
end
if #ARGV == 4 then expired(prefix .. 'expiring') end
for i = 5, #ARGV do expired(prefix .. 'expiring:' .. ARGV[i]) end
local function silent(from)
  for _, owner in ipairs(redis.call('ZRANGEBYSCORE', prefix .. 'sessions', from[1], from[2])) do
    if #ids >= limit then return end
    if #ARGV == 4 then below(prefix .. 'owned', owner) end
    for i = 5, #ARGV do below(prefix .. 'held', ARGV[i] .. '\0' .. owner) end
  end
end
silent({'-inf', '0'})
silent({'(' .. left_out, now})
local rows = {}
for i, id in ipairs(ids) do rows[i] = redis.call('GET', prefix .. 'r:' .. id) or '' end
return rows
