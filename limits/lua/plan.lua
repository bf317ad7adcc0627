--[[
plan: one process at a time plans the re-checks of a courier, or fills a line. Each question makes it hold those
that it plans for so much longer, and takes over those that nobody holds. Repeating it changes nothing.

KEYS[1…]  tracking:planner:<line>  who plans the courier's re-checks, or fills the service's line
ARGV[1]   who asks
ARGV[2]   ms for which it plans from now on

Returns  {1, 0, …}  whether it plans each line
]]
-- A full Redis lets a script write that begins with a deletion: lib/context.lua.
redis.call('DEL', 'tracking:nothing')
local plans = {}
for i = 1, #KEYS do
  -- A key that is no string is held by nobody whom we know.
  local holder = redis.pcall('GET', KEYS[i])
  local its_own = not holder or holder == ARGV[1]
  if its_own then redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2]) end
  plans[i] = its_own and 1 or 0
end
return plans
