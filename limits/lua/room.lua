--[[
room: how many re-checks a line takes now, so that each can be called in time behind all who wait. None while
the line is paused. After a pause one call alone tries: one, where nobody waits whose call that would be.
Changes nothing.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  most     no more are to be put
  within   ms

Uses     lists: nobody_waits, numbers, turns_before
         brake: calls_alone, paused_us
         lanes: starts_at

Returns  {now, room}
]]
local function starts_in_time(ahead, within)
  return starts_at(turns_before(AUTOMATIC, ahead), now) <= now + within * 1000
end

return function(most, within)
  if paused_us() > 0 then return { now, 0 } end
  if calls_alone() then return { now, nobody_waits() and math.min(1, most) or 0 } end
  local waiting, room, beyond = numbers(AUTOMATIC), 0, most + 1
  while beyond - room > 1 do
    local middle = math.floor((room + beyond) / 2)
    if starts_in_time(waiting + middle - 1, within) then room = middle else beyond = middle end
  end
  return { now, room }
end
