--[[
lanes: may a call start now, or when; and the grant itself.

A line has `per_second` lanes. A start takes a lane, which is free again window_us after the real
send. Until the send is reported the lane counts as used at the last permitted instant: a lost
report costs a little time and never breaks the limit.

Quotas count calls, and each number of a call where rules.quotas_count_numbers: calls_hour has the id of each
number's call then, and not that of their lead alone.
]]
local free_lane, opening, start, give_start_back, starts_at, is_rationed, in_share, most_together
do
  local HOUR_US = 3600000000
  local SECOND_US = 1000000
  local SEND_SPARE_US = 30000

  -- Returns the score at which fewer than `most` members will be left, with its member; nil when
  -- fewer are left now. There may be more than `most`, where the rule was a higher one before.
  -- `reach`: how far ahead a score can lie, unless the clock stepped back; looked at once a script.
  local function frees(key, most, reach)
    local surplus = members(key) - most
    if surplus < 0 then return nil end
    clamp(key, reach)
    local found = call('ZRANGE', key, surplus, surplus, 'WITHSCORES')
    return tonumber(found[2]), found[1]
  end

  local function day_ends()
    local days = math.floor((now - rules.day_resets_at_us) / DAY_US)
    return (days + 1) * DAY_US + rules.day_resets_at_us
  end

  -- A start counts for so long, beyond the lane's own guard.
  local function hour_us()
    return HOUR_US + rules.window_us - SECOND_US + leapt_us()
  end

  -- Returns nil when no quota binds, else its name and when to look again.
  local function quota()
    local latest = now + rules.ahead_us + rules.late_us
    if rules.per_hour then
      change_hour('ZREMRANGEBYSCORE', HOUR, '-inf', now - hour_us())
      local first = frees(HOUR, rules.per_hour, latest)
      if first then return 'per_hour', first + hour_us() end
    end
    if rules.per_day then
      -- What could leave after the reset would count before it.
      local used_up = tonumber(call('GET', DAY) or 0) >= rules.per_day
      if used_up or latest >= day_ends() then return 'per_day', day_ends() end
    end
    return nil
  end

  -- Returns at, lane (the start it replaces, or nil) -- or nil, why, when to look again.
  function free_lane()
    local why, ask = quota()
    if why then return nil, why, ask end
    local free, lane = frees(STARTS, rules.per_second, now + rules.lane_us)
    if not free then return now, nil end
    if free <= now + rules.ahead_us then return math.max(now, free), lane end
    ask = free - rules.ahead_us
    -- Not reported yet: the report will move it forward by up to late_us, and by less if the send was
    -- late. Asking slightly late is cheaper than being refused.
    if free > now + rules.window_us then
      ask = math.max(now + 50000, ask - rules.late_us + SEND_SPARE_US)
    end
    return nil, 'rate', ask
  end

  -- As free_lane, for a new call: also pauses and the calls in flight.
  function opening()
    local quiet, unknown = quiet_until()
    if not quiet then return nil, unknown, now + 1000000 end
    if quiet > now then return nil, 'quiet', quiet end
    local most = rules.concurrent
    local paused = paused_us()
    if paused > 0 then return nil, 'paused', now + paused end
    -- After a pause one call, the probe, tries whether the courier answers again.
    if calls_alone() then most = 1 end
    local ends = frees(LEASES, most, now + rules.lease_us)
    if ends then return nil, 'concurrency', ends end
    return free_lane()
  end

  -- The score that has `behind` others behind it, itself among them; 0 where there are fewer.
  local function score_before(key, behind)
    return tonumber(call('ZRANGE', key, -behind, -behind, 'WITHSCORES')[2] or 0)
  end

  local function by_rate(turns, from)
    local lanes = rules.per_second
    local free = score_before(STARTS, lanes - turns % lanes)
    -- Not reported yet: the report will move it forward.
    if free > now + rules.window_us then free = free - rules.late_us end
    return math.max(free, from) + math.floor(turns / lanes) * rules.window_us
  end

  -- How much of a quota a full call takes.
  local function charge()
    return rules.quotas_count_numbers and rules.together or 1
  end

  local function by_hour(turns, from)
    local rounds, turn = math.floor(turns / rules.per_hour), turns % rules.per_hour
    local counts_until = score_before(HOUR, rules.per_hour - turn) + hour_us()
    return math.max(by_rate(math.floor(turn / charge()), from), counts_until) + rounds * hour_us()
  end

  local function by_day(turns, from)
    local each, ends = rules.window_us / rules.per_second / charge(), day_ends()
    local left = rules.per_day - tonumber(call('GET', DAY) or 0)
    if from >= ends then
      ends, left = ends + (math.floor((from - ends) / DAY_US) + 1) * DAY_US, rules.per_day
    end
    left = math.max(0, math.min(left, math.ceil((ends - by_rate(0, from)) / each)))
    if turns < left then return from end
    local days = math.floor((turns - left) / rules.per_day)
    return ends + days * DAY_US + (turns - left) % rules.per_day * each
  end

  -- µs at which the call for a number starts, from `from` on, before which `ahead` others have their turn: by the
  -- rate and the quotas alone. Those that ride together start together; `requests`: that each call takes, if
  -- more than one. Returns also which of them binds. Reads only.
  function starts_at(ahead, from, requests)
    local calls = math.floor(math.floor(ahead / rules.together) * (requests or 1))
    local turns = rules.quotas_count_numbers and ahead or calls
    local at, why = by_rate(calls, from), 'rate'
    local hour = rules.per_hour and by_hour(turns, from) or 0
    if hour > at then at, why = hour, 'per_hour' end
    local day = rules.per_day and by_day(turns, from) or 0
    if day > at then at, why = day, 'per_day' end
    return at, why
  end

  -- Whether company saves quotas anything: not those that count numbers.
  function is_rationed()
    return (rules.per_hour or rules.per_day) and rules.together > 1 and not rules.quotas_count_numbers
  end

  -- µs from which on no more of any quota is spent than its linear share, after so many `calls` more, if any: of
  -- an hour since the oldest start that counts, of a day since its reset. 0 where no quota rations. Reads only.
  function in_share(calls)
    if not is_rationed() then return 0 end
    local at, more = 0, calls or 0
    if rules.per_hour then
      local oldest = call('ZRANGEBYSCORE', HOUR, now - hour_us(), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
      local spent = oldest and call('ZCOUNT', HOUR, oldest, '+inf') or 0
      at = (oldest or now) + (spent + more) * HOUR_US / rules.per_hour
    end
    if rules.per_day then
      local spent = tonumber(call('GET', DAY) or 0) + more
      at = math.max(at, day_ends() - DAY_US + spent * DAY_US / rules.per_day)
    end
    return at
  end

  -- How many numbers a call may be for that starts now: quotas that count them may leave fewer than the rules.
  function most_together()
    local most = rules.together
    if not rules.quotas_count_numbers then return most end
    if rules.per_hour then most = math.min(most, rules.per_hour - members(HOUR)) end
    if rules.per_day then most = math.min(most, rules.per_day - tonumber(call('GET', DAY) or 0)) end
    return math.max(1, most)
  end

  -- numbers: that the call is for, if several.
  function start(id, at, lane, numbers)
    local charged = rules.quotas_count_numbers and numbers or 1
    add_start(id, at + rules.late_us + rules.window_us, lane)
    if rules.per_hour then
      local entries = { at + rules.late_us, id }
      for i = 2, charged do
        table.insert(entries, at + rules.late_us)
        table.insert(entries, id .. '~' .. i)
      end
      change_hour('ZADD', HOUR, unpack(entries))
      -- Twice as long as starts count: the clock may leap by an hour.
      call('PEXPIRE', HOUR, (2 * HOUR_US + rules.ahead_us + rules.late_us) / 1000)
    end
    if rules.per_day then
      if charged == 1 then call('INCR', DAY) else call('INCRBY', DAY, charged) end
      call('PEXPIREAT', DAY, day_ends() / 1000)
    end
  end

  -- Only for a request that certainly did not leave. Who rides had no start, but perhaps a part of the quotas.
  function give_start_back(id, record)
    charge_back(record)
    local rides = record.lead and record.lead ~= id
    if rides and not rules.quotas_count_numbers then return end
    if not rides and tonumber(record.at) > now then
      -- Until then its lane is still in use by the start before.
      call('ZADD', STARTS, 'XX', record.at, id)
    elseif not rides then
      remove_start(id)
    end
    if rules.per_hour then change_hour('ZREM', HOUR, id) end
    local today = rules.per_day and tonumber(record.granted) >= day_ends() - DAY_US
    if today and tonumber(call('GET', DAY) or 0) > 0 then call('DECR', DAY) end
  end
end
