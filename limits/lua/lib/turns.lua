--[[
turns: whose turn it is, who asks next, and the flag that tells operators until when.
]]
local LOOK_AT_ONCE = 100
local ASK_AT_LEAST_US = 30000000
local DRAINER_SPARE_MS = 3000
local TUBE_MS = 4000
-- Instants so near to each other are the same to whoever waits for them.
local NEAR_US = 20000

local function expired(_, _, till) return till ~= nil and till <= now_ms end

local EXPIRED = { state = 'CANCELLED', output = '{"reason":"expired"}' }

-- Returns the record of a number that was popped and the call that runs for it, nil when nobody wants
-- it (any more), or false when more of its operations are to be looked at; it is the first in line
-- again then.
-- A number without a record was pushed by hand, or by the original system: one plain request.
local function wanted(number, base)
  local record = read_record(REQUESTS, number)
  if not record then
    local id, answer = 'hand-' .. base .. number, fresh(call('GET', ANSWER .. number))
    if answer and end_anonymous(id, answer) then return nil end
    return { since = now_ms, anon = { id = id, count = 1, at = now_ms } }, running(number)
  end
  if record.state == 'later' then change_line('ZREM', LATER, number) end
  local anon = record.anon
  local cancelled = not anon and (record.ids or 0) <= 0
  local doubt = cancelled or record.tills or record.kept or (anon and anon.till)
  if doubt and not end_where(record, EXPIRED, expired) then
    record.state = nil
    write_record(REQUESTS, number, record)
    change_line('LPUSH', list_of(record), number)
    return false
  end
  local runs = running(number)
  if nobody_left(record) or not runs then call('HDEL', REQUESTS, number) end
  return not nobody_left(record) and record or nil, runs
end

-- Grants up to `room` waiting requests, calls named base:1, base:2, …
-- Returns the grants, and when nobody more may start: why and when to look again. A full process
-- (room -1) is to come by itself as soon as it has room, and to say before long that it still waits.
local function take(base, room)
  local grants = {}
  move_due()
  for _ = 1, LOOK_AT_ONCE do
    if room == 0 then return grants, 'room', now end
    if #grants == room then return grants, 'more', now end
    local at, lane, ask = opening()
    if not at then return grants, lane, ask end
    if room < 0 and waits() > 0 then return grants, 'full', now + ASK_AT_LEAST_US end
    local number = pop()
    if not number then return grants, 'empty', nil end
    local record, runs = wanted(number, base)
    if record == false then return grants, 'more', now end
    if record and runs then
      put_behind(number, record)
    elseif record then
      table.insert(grants, grant(base .. ':' .. (#grants + 1), number, record, at, lane))
    end
  end
  return grants, 'more', now
end

-- The grants of a script that is sent again because its reply was lost.
local function taken_before(base)
  local grants = {}
  repeat
    local before = granted_before(base .. ':' .. (#grants + 1))
    if before then table.insert(grants, before) end
  until not before
  return grants
end

-- µs that a call has lately taken, nil before the first one.
local function average_time()
  touched.average_us = touched.average_us or tonumber(call('HGET', COUNTS, 'call_us') or nil)
  return touched.average_us
end

-- µs that each one in line waits behind the one before, where calls take so long.
local function each_us(took)
  return math.max(rules.window_us / rules.per_second, took / rules.concurrent)
end

-- The flag's TTL is the estimate of when the last one that waits is due. It runs down by itself, so it
-- is made anew only for a line that has changed.
local function raise_flag(waiting)
  if signs()[IS_FLAGGED] and not touched.line_changed then return end
  local due_us = waiting * each_us(average_time() or 0)
  if signs()[IS_PAUSED] then due_us = due_us + math.max(call('PTTL', PAUSED), 0) * 1000 end
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

local function appoint(token, at)
  set_sign(DRAINS, DRAINER, token .. ' ' .. digits(at),
    math.ceil(math.max(at - now, 0) / 1000) + DRAINER_SPARE_MS)
end

-- Returns 1 when the caller must put a job on the tube wait_list: nobody drains this slug.
local function call_drainer(who)
  local token = drainer()
  if token == 'tube:' .. who then return 1 end
  if token then return 0 end
  set_sign(DRAINS, DRAINER, 'tube:' .. who .. ' ' .. digits(now), TUBE_MS)
  count('drains')
  return 1
end

-- Nobody waits: flag and drainer go in this same step, so that the next one parked calls anew.
local function at_rest()
  if not nobody_waits() then return false end
  call('DEL', DRAINER, FLAG)
  touched.signs = nil
  call('HDEL', REQUESTS, '!turn')
  return true
end

-- Ends every script that may leave somebody waiting. `claims`: this process came with the slug's job
-- of the tube, which whoever drains holds: the one before vanished, or lost it.
-- Returns ask (µs at which this process must ask again, 0 for never) and put (1: put a drain job).
local function settle(who, why, ask, claims)
  if at_rest() then return 0, 0 end
  local waiting = waits()
  raise_flag(waiting)
  local token, at = drainer()
  local came_for_it = claims and token ~= nil
  if why == 'room' then
    -- This process stops, or shares: it hands the slug over through the tube.
    if token == rules.token or came_for_it and token ~= 'tube:' .. who then
      call('DEL', DRAINER)
      touched.signs = nil
    end
    return 0, call_drainer(who)
  end
  if waiting == 0 then ask = call('ZRANGE', LATER, 0, 0, 'WITHSCORES')[2] * 1000 end
  ask = math.min(ask or now, now + ASK_AT_LEAST_US)
  local ours = not token or token == rules.token or came_for_it
  if not ours and at <= ask + NEAR_US then return 0, 0 end
  local named = token == rules.token and math.abs(at - ask) <= NEAR_US
  if not named then appoint(rules.token, ask) end
  return digits(ask), 0
end

-- What take does, and every step that frees a slot does next. Sent again it answers the same.
-- anew: the call that ends was still in flight, so this step has taken nothing before.
local function turn(base, room, claims, anew)
  room = tonumber(room)
  local grants = anew and {} or taken_before(base)
  local why, look_again = 'more', now
  local nothing_left = nobody_waits() and not signs()[DRAINS] and not signs()[IS_FLAGGED]
  if #grants == 0 and nothing_left then
    return grants, 'empty', 0, 0
  elseif #grants == 0 then
    grants, why, look_again = take(base, room)
  elseif #grants < room then
    local at
    at, why, look_again = opening()
    if at then why, look_again = 'more', now end
  end
  local ask, put = settle(base, why, look_again, claims)
  return grants, why, ask, put
end

-- Whether a call that has just ended leaves everything as it is for those who wait: nobody lacked its
-- slot, and somebody is named who asks in time: a process that is full is named for much later.
-- `room`: a process that stops hands the slug over.
local function is_in_hand(room)
  if room == 0 or signs()[IS_BROKEN] or members(LEASES) + 1 >= rules.concurrent then return false end
  local _, at = drainer()
  return at ~= nil and at >= now and at <= now + rules.late_us + rules.window_us
end

-- What every step does that ends a call unanswered: its request goes back into line where `put_back`
-- puts it, and the slot to whoever is next. Does nothing to a call that is not ours (any more).
local function end_unanswered(id, base, room, put_back)
  reap(LEASES)
  local number, record = land_to_wait(id)
  if number then
    wait_again(record)
    put_back(number, record)
  end
  local grants, why, ask, put = turn(base, room, false, number ~= nil)
  return { now, grants, why, ask, put }
end
