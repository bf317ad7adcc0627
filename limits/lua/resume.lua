--[[
resume: a line that is paused goes on, as if none of its calls had failed. Its drainer is asked for by
the next sweep.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  by_hand  1: also when somebody has paused it by hand

Uses     memory: delete_signs, signs
         brake: stands_because, wake_failed

Returns  {now, held, why}
         held     1: somebody had paused it by hand, and now nobody has
         why      its calls failed, or empty
]]
return function(by_hand)
  local held, why = signs()[IS_HELD] and by_hand == '1', stands_because()
  if held or why then
    wake_failed()
    delete_signs(PAUSED, BRAKE, DRAINER)
    if held then delete_signs(HELD) end
  end
  return { now, held and 1 or 0, why or '' }
end
