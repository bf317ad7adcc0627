--[[
resume: a line that is paused goes on, as if none of its calls had failed. Its drainer is asked for by
the next sweep.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  by_hand  1: also when somebody has paused it by hand

Uses     memory: change_later, delete_signs, later, signs
         brake: paused_us, stands_because

Returns  {now, held, why}
         held     1: somebody had paused it by hand, and now nobody has
         why      its calls failed, or empty
]]
-- Who failed waits for the end of the pause.
local function make_due()
  if later() == 0 then return end
  local till = now_ms + paused_us() / 1000
  for _, number in ipairs(call('ZRANGEBYSCORE', LATER, '(' .. now_ms, till, 'LIMIT', 0, 200)) do
    change_later('ZADD', LATER, 'XX', now_ms, number)
  end
end

return function(by_hand)
  local held, why = signs()[IS_HELD] and by_hand == '1', stands_because()
  if held or why then
    make_due()
    delete_signs(PAUSED, BRAKE, DRAINER)
    if held then delete_signs(HELD) end
  end
  return { now, held and 1 or 0, why or '' }
end
