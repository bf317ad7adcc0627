--[[
clear: a line was removed for good, so nothing is kept of it once nothing waits or runs on it. Answers
and statistics end by themselves.

KEYS     of the line, see lib/context.lua
ARGV     nothing but the reports, see lib/batch.lua

Uses     memory: drop_ended, members
         waiting: nobody_waits

Returns  {now, 1}   all its keys are gone
         {now, 0}   something waits or runs, or has started within the last second: nothing is done
]]
return function()
  drop_ended(LEASES)
  local is_busy = not nobody_waits() or call('EXISTS', REQUESTS, INFLIGHT) > 0
  if is_busy or members(LEASES) > 0 or members(STARTS) > 0 then return { now, 0 } end
  call('DEL', CALLS, SECOND, LEASES, STARTS, MANUAL, AUTOMATIC, LATER, REQUESTS, INFLIGHT, DRAINER, FLAG,
    PAUSED, HELD, BRAKE, HOUR, DAY, COUNTS, ORDER, UNREADABLE)
  call('SREM', LINES, line)
  return { now, 1 }
end
