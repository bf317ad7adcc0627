--[[
draining: which process asks next for those who wait, and the flag that tells operators until when.
]]
local ASK_AT_LEAST_US = 30000000

-- µs that each one in line waits behind the one before, where calls take so long.
local function each_us(took)
  return math.max(rules.window_us / rules.per_second, took / rules.concurrent) / rules.together
end

-- The flag's TTL is the estimate of when the last one that waits is due. It runs down by itself, so it
-- is estimated again only for a line that has changed.
local function raise_flag(waiting)
  if signs()[IS_FLAGGED] and not lists_changed() then return end
  local due_us = waiting * each_us(average_time() or 0) + paused_us()
  if later() > 0 then
    due_us = math.max(due_us, call('ZRANGE', LATER, -1, -1, 'WITHSCORES')[2] * 1000 - now)
  end
  set_sign(IS_FLAGGED, FLAG, '1', math.max(1000, math.ceil(due_us / 1000)))
end

local function drainer()
  local token, at = string.match(signs()[DRAINS] or '', '^(%S+) (%d+)$')
  -- Named when the clock was ahead: it steps back, and the time to live grows with it.
  if token and tonumber(at) > now + ASK_AT_LEAST_US then return nil end
  return token, tonumber(at)
end

-- Returns 1 when the caller must put a job on the tube wait_list: nobody drains this line.
local function call_drainer(who)
  local TUBE_MS = 4000
  local token = drainer()
  if token == 'tube:' .. who then return 1 end
  if token then return 0 end
  set_sign(DRAINS, DRAINER, 'tube:' .. who .. ' ' .. digits(now), TUBE_MS)
  return 1
end

-- Nobody waits: flag and drainer go in this same step, so that the next one parked asks for a drain job.
local function at_rest()
  if not nobody_waits() then return false end
  delete_signs(DRAINER, FLAG)
  return true
end

-- Ends every script that may leave somebody waiting. `claims`: this process holds the line's drain
-- job, so the previous drainer is gone, or lost it.
-- Returns ask (µs at which this process must ask again, 0 for never) and put (1: put a drain job).
local function settle(who, why, ask, claims)
  local NEAR_US = 20000 -- instants so near to each other count as the same one
  local DRAINER_SPARE_MS = 3000
  if at_rest() then return 0, 0 end
  local waiting = waits()
  raise_flag(waiting)
  local token, at = drainer()
  local came_for_it = claims and token ~= nil
  if why == 'room' then
    -- This process stops, or shares: it hands the line over through the tube.
    if token == rules.token or came_for_it and token ~= 'tube:' .. who then
      delete_signs(DRAINER)
    end
    return 0, call_drainer(who)
  end
  if waiting == 0 then ask = call('ZRANGE', LATER, 0, 0, 'WITHSCORES')[2] * 1000 end
  ask = math.min(ask or now, now + ASK_AT_LEAST_US)
  local ours = not token or token == rules.token or came_for_it
  if not ours and at <= ask + NEAR_US then return 0, 0 end
  local named = token == rules.token and math.abs(at - ask) <= NEAR_US
  if not named then
    set_sign(DRAINS, DRAINER, rules.token .. ' ' .. digits(ask),
      math.ceil(math.max(ask - now, 0) / 1000) + DRAINER_SPARE_MS)
  end
  return digits(ask), 0
end
