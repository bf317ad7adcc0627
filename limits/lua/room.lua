--[[
room: how many re-checks a line takes now, so that each can be called in time behind all who wait. None while
the line is paused. While its calls fail one call alone tries after each pause: one re-check at a time, for
those who wait may be numbers that always fail. Changes nothing.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  most     no more are to be put
  within   ms

Uses     memory: numbers, open_operations, signs
         brake: calls_alone, paused_us
         lanes: in_share, starts_at
         waiting: turns_before

Returns  {now, room}
]]
local function starts_in_time(ahead, within)
  local turns = turns_before(AUTOMATIC, ahead)
  local share = in_share(math.floor(turns / rules.together))
  return math.max(starts_at(turns, now), share) <= now + within * 1000
end

return function(most, within)
  local _, open = open_operations()
  if calls_alone() and not signs()[IS_HELD] then return { now, open == 0 and math.min(1, most) or 0 } end
  if paused_us() > 0 then return { now, 0 } end
  local waiting, room, beyond = numbers(AUTOMATIC), 0, most + 1
  while beyond - room > 1 do
    local middle = math.floor((room + beyond) / 2)
    if starts_in_time(waiting + middle - 1, within) then room = middle else beyond = middle end
  end
  return { now, room }
end
