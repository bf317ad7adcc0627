--[[
requeue: a call is handed back to the head of the list. The start stays spent: it may have left.

KEYS     of the slug, see lib/slug.lua
ARGV[1]  rules     see lib/slug.lua
ARGV[2]  reports   see lib/slug.lua
ARGV[3]  call id
ARGV[4]  pause     ms during which nobody calls this courier; 0: longer each time; -1: no pause
ARGV[5]  why       of the pause, for operators
ARGV[6]  base      as in take.lua
ARGV[7]  room      as in take.lua

Returns  {now, grants, why, ask, put}, as in take.lua
]]
reap()
local number, record = land_to_wait(ARGV[3])
if number then
  wait_again(record)
  put_head(number, record)
  pause(tonumber(ARGV[4]), ARGV[5])
end
local grants, why, ask, put = turn(ARGV[6], ARGV[7], false)
return { now, grants, why, ask, put }
