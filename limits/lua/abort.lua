--[[
abort: a call certainly did not start. It goes back to the head of the list, with its start.

KEYS     of the slug, see lib/slug.lua
ARGV     behind the reports, see lib/batch.lua:
  id       of the call
  pause_ms during which nobody calls this courier; 0: longer each time; -1: no pause
  reason   of the pause, for operators
  base     as in take.lua
  room     as in take.lua

Returns  {now, grants, why, ask, put}, as in take.lua
]]
return function(id, pause_ms, reason, base, room)
  return end_unanswered(id, base, room, function(number, record)
    give_start_back(id, record)
    put_head(number, record)
    pause(tonumber(pause_ms), reason)
  end)
end
