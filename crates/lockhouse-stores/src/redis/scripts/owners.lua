#!lua flags=allow-oom
-- The owners of live requests behind one, each once: the first parts of the members of a sorted set.
-- KEYS: the set. ARGV: the owner, the limit.
local owners, min = {}, '-'
if ARGV[1] ~= '' then min = '(' .. ARGV[1] .. '\1' end
while #owners < tonumber(ARGV[2]) do
  local member = redis.call('ZRANGEBYLEX', KEYS[1], min, '+', 'LIMIT', 0, 1)[1]
  if not member then break end
  owners[#owners + 1] = member:match('^[^%z]*')
  min = '(' .. owners[#owners] .. '\1'
end
return owners
