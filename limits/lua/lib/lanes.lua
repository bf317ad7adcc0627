--[[
lanes: may a call start now, or when; and the grant itself.

A slug has `per_second` lanes. A start takes a lane, which is free again window_us after the real
send. Until the send is reported the lane counts as used at the last permitted instant: a lost
report costs a little time and never breaks the limit.
]]
local DAY_US = 86400000000
local HOUR_US = 3600000000

-- When a clock steps back, nothing may reach further than what could be granted now.
local function clamp(key, most)
  for _, member in ipairs(call('ZRANGEBYSCORE', key, '(' .. digits(most), '+inf')) do
    call('ZADD', key, most, member)
  end
end

local function reap()
  call('ZREMRANGEBYSCORE', LEASES, '-inf', now)
  call('ZREMRANGEBYSCORE', STARTS, '-inf', now)
  clamp(LEASES, now + rules.lease_us)
  clamp(STARTS, now + rules.ahead_us + rules.late_us + rules.window_us)
end

local function day_ends()
  local days = math.floor((now - rules.day_resets_at_us) / DAY_US)
  return (days + 1) * DAY_US + rules.day_resets_at_us
end

-- Returns nil when no quota binds, else its name and when to look again.
local function quota()
  if rules.per_hour then
    call('ZREMRANGEBYSCORE', HOUR, '-inf', now - HOUR_US)
    if call('ZCARD', HOUR) >= rules.per_hour then
      return 'per_hour', tonumber(call('ZRANGE', HOUR, 0, 0, 'WITHSCORES')[2]) + HOUR_US
    end
  end
  if rules.per_day and tonumber(call('GET', DAY) or 0) >= rules.per_day then
    return 'per_day', day_ends()
  end
  return nil
end

-- Returns at, lane (the start it replaces, or nil) -- or nil, why, when to look again.
local function free_lane()
  local why, ask = quota()
  if why then return nil, why, ask end
  if call('ZCARD', STARTS) < rules.per_second then return now, nil end
  local first = call('ZRANGE', STARTS, 0, 0, 'WITHSCORES')
  local free = tonumber(first[2])
  if free <= now + rules.ahead_us then return math.max(now, free), first[1] end
  ask = free - rules.ahead_us
  -- Not reported yet: the report will move it forward by up to late_us.
  if free > now + rules.window_us then ask = math.max(now + 50000, ask - rules.late_us) end
  return nil, 'rate', ask
end

-- As free_lane, for a new call: also pauses and the calls in flight.
local function opening()
  local quiet = quiet_until()
  if not quiet then return nil, 'epoch', now + 1000000 end
  if quiet > now then return nil, 'quiet', quiet end
  local paused = call('PTTL', PAUSED)
  if paused > 0 then return nil, 'paused', now + paused * 1000 end
  local most = rules.concurrent
  -- After a pause one call tries whether the courier answers again.
  if call('EXISTS', BREAKER) == 1 then most = 1 end
  if call('ZCARD', LEASES) >= most then
    return nil, 'concurrency', tonumber(call('ZRANGE', LEASES, 0, 0, 'WITHSCORES')[2])
  end
  return free_lane()
end

local function start(id, at, lane)
  if lane then call('ZREM', STARTS, lane) end
  call('ZADD', STARTS, at + rules.late_us + rules.window_us, id)
  call('PEXPIRE', STARTS, math.ceil((rules.ahead_us + rules.late_us + rules.window_us) / 1000))
  if rules.per_hour then
    call('ZADD', HOUR, at, id)
    call('PEXPIRE', HOUR, (HOUR_US + rules.ahead_us) / 1000)
  end
  if rules.per_day then
    call('INCR', DAY)
    call('PEXPIREAT', DAY, day_ends() / 1000)
  end
end

-- Only for a request that certainly did not leave.
local function give_start_back(id)
  call('ZREM', STARTS, id)
  if rules.per_hour then call('ZREM', HOUR, id) end
  if rules.per_day and call('EXISTS', DAY) == 1 and tonumber(call('GET', DAY)) > 0 then
    call('DECR', DAY)
  end
end

-- Stops the slug for all workers. pause_ms: 0 for "longer each time", from one minute to one hour.
-- The calls that were in flight together count as one failure.
local function pause(pause_ms, why)
  if pause_ms < 0 then return end
  if pause_ms == 0 then
    if call('EXISTS', PAUSED) == 1 then return end
    local failures = call('INCR', BREAKER)
    call('PEXPIRE', BREAKER, DAY_US / 1000)
    pause_ms = math.min(60000 * 2 ^ (failures - 1), 3600000)
  end
  if call('PTTL', PAUSED) < pause_ms then call('SET', PAUSED, why, 'PX', math.ceil(pause_ms)) end
end
