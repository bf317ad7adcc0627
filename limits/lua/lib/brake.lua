--[[
brake: what stops all calls to a courier, and what lets them go on.

A pause ends by itself. The breaker counts pauses in a row after failed credentials: each is longer than
the last, and until the courier answers one call alone tries whether it does.
]]
local DAY_US = 86400000000

-- µs for which nobody may call, 0 without a pause.
local function paused_us()
  return signs()[IS_PAUSED] and math.max(call('PTTL', PAUSED), 0) * 1000 or 0
end

-- Whether one call alone may run, until an answer comes.
local function calls_alone()
  return signs()[IS_BROKEN]
end

-- Stops the line for all workers. pause_ms: 0 for "longer each time", from one minute to one hour.
-- The calls that were in flight together count as one failure.
local function pause(pause_ms, why)
  if pause_ms < 0 then return end
  pause_changes()
  if pause_ms == 0 then
    if call('EXISTS', PAUSED) == 1 then return end
    local failures = call('INCR', BREAKER)
    call('PEXPIRE', BREAKER, DAY_US / 1000)
    pause_ms = math.min(60000 * 2 ^ (failures - 1), 3600000)
  end
  if call('PTTL', PAUSED) < pause_ms then call('SET', PAUSED, why, 'PX', math.ceil(pause_ms)) end
end

-- The courier has answered.
local function lift_breaker()
  delete_signs(BREAKER)
end
