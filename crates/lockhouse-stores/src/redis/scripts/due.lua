#!lua flags=allow-oom
-- The rows of live requests whose time has passed, or whose owner's session has.
--
-- ARGV: what all keys begin with, the time, the time by which lapsed sessions are left out, the limit, and the
-- semaphores that are asked for; none for all. Sessions whose silence has ended something lapsed at 0, and are never left out.
--
-- On a semaphore, the script goes through the owners of its requests or the lapsed sessions, whichever are fewer.
local prefix, now, left_out, limit = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local sessions, held, recent = prefix .. 'sessions', prefix .. 'held', '(' .. left_out
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

local function each_silent_owner(of)
  for _, range in ipairs({{'-inf', '0'}, {recent, now}}) do
    for _, owner in ipairs(redis.call('ZRANGEBYSCORE', sessions, range[1], range[2])) do
      if #ids >= limit then return end
      of(owner)
    end
  end
end
local lapsed = redis.call('ZCOUNT', sessions, '-inf', '0') + redis.call('ZCOUNT', sessions, recent, now)
-- Each owner of requests on a semaphore once; nothing if they are more than the lapsed sessions.
local function owners_on(name)
  local owners, from = {}, '[' .. name .. '\0'
  while #owners < lapsed do
    local member = redis.call('ZRANGEBYLEX', held, from, '(' .. name .. '\1', 'LIMIT', 0, 1)[1]
    if not member then return owners end
    owners[#owners + 1] = member:match('%z([^%z]*)')
    from = '(' .. name .. '\0' .. owners[#owners] .. '\1'
  end
end

if #ARGV == 4 then
  expired(prefix .. 'expiring')
  each_silent_owner(function(owner) below(prefix .. 'owned', owner) end)
end
for i = 5, #ARGV do
  local name = ARGV[i]
  expired(prefix .. 'expiring:' .. name)
  local function requests_of(owner) below(held, name .. '\0' .. owner) end
  local owners = owners_on(name)
  if not owners then each_silent_owner(requests_of) end
  for _, owner in ipairs(owners or {}) do
    local lapses = redis.call('ZSCORE', sessions, owner)
    if lapses and tonumber(lapses) <= tonumber(now) then requests_of(owner) end
  end
end
local rows = {}
for i, id in ipairs(ids) do rows[i] = redis.call('GET', prefix .. 'r:' .. id) or '' end
return rows
