--[[
taking: calls are granted to numbers that wait, and a slot that a call frees to the next in line. It names
the process that asks next for those who wait, and raises the flag that tells operators until when.
]]
local ASK_AT_LEAST_US = 30000000

-- µs that each one in line waits behind the one before, where calls take so long.
local function each_us(took)
  return math.max(rules.window_us / rules.per_second, took / rules.concurrent) / rules.together
end

-- The flag's TTL is the estimate of when the last one that waits is due. It runs down by itself, so it
-- is estimated again only for a line that has changed, once, at the end of the script. company: µs until
-- when all wait for that, or nil.
local function raise_flag(company)
  if not signs()[IS_FLAGGED] or lists_changed() then set_flag(true, company) end
end

local function close_flag()
  local waiting, company = waits(), company_of_flag()
  local due_us = waiting * each_us(average_time() or 0) + paused_us()
  if company then due_us = math.max(due_us, company - now) end
  if is_rationed() and numbers(AUTOMATIC) > rules.together then
    due_us = math.max(due_us, in_share(math.floor((waiting - 1) / rules.together)) - now)
  end
  if later() > 0 then
    due_us = math.max(due_us, call('ZRANGE', LATER, -1, -1, 'WITHSCORES')[2] * 1000 - now)
  end
  set_sign(IS_FLAGGED, FLAG, '1', math.max(1000, math.ceil(due_us / 1000)))
end
table.insert(closing, 1, { 'flagged', close_flag })

local drainer
do
  local read, token, at

  function drainer()
    local text = signs()[DRAINS] or ''
    if text ~= read then
      token, at = string.match(text, '^(%S+) (%d+)$')
      read, at = text, tonumber(at)
    end
    -- Named when the clock was ahead: it steps back, and the time to live grows with it.
    if token and at > now + ASK_AT_LEAST_US then return nil end
    return token, at
  end
end

-- The line is drained from now on by the process that reserves the job which `who` puts on the tube wait_list.
-- Returns 1: put it.
local function call_by_tube(who)
  local TUBE_MS = 4000
  set_sign(DRAINS, DRAINER, 'tube:' .. who .. ' ' .. digits(now), TUBE_MS)
  return 1
end

-- Returns 1 when the caller must put a job on the tube wait_list: nobody drains this line.
local function call_drainer(who)
  local token = drainer()
  if token == 'tube:' .. who then return 1 end
  return token and 0 or call_by_tube(who)
end

local NEAR_US = 20000 -- instants so near to each other count as the same one

-- This process is to ask for the line at this instant.
local function name_drainer(at)
  local DRAINER_SPARE_MS = 3000
  set_sign(DRAINS, DRAINER, rules.token .. ' ' .. digits(at),
    math.ceil(math.max(at - now, 0) / 1000) + DRAINER_SPARE_MS)
end

-- For a request that was just parked, and waits for company until `ends`: somebody has to ask for the line by
-- then, or once it is open. Where its drainer looks later, this process does. But one that is `full` leaves that to
-- the process that takes the drain job, and so does every process where the line stands, or is as long as a call:
-- who drains a line for long has its drain job.
-- Returns put (1: put a drain job) and, where this process has to ask, when.
local function ask_by(who, ends, full)
  local token, at = drainer()
  local is_open, opens = true, now
  if not token or at > ends + NEAR_US then
    local free, _, ask = opening()
    is_open, opens = free ~= nil, free and now or ask
  end
  local due = math.max(ends, opens)
  if token and at <= due + NEAR_US then
    if token == rules.token then return 0, digits(at) end
    return call_drainer(who), nil
  end
  if full or not is_open or waits() >= rules.together then return call_by_tube(who), nil end
  due = math.min(due, now + ASK_AT_LEAST_US)
  name_drainer(due)
  return 0, digits(due)
end

-- Nobody waits: flag and drainer go in this same step, so that the next one parked asks for a drain job.
local function at_rest()
  if not nobody_waits() then return false end
  delete_signs(DRAINER, FLAG)
  set_flag(false)
  return true
end

local leaves_its_record
do
  local function carries(record, job)
    local anon = record and record.anon
    return anon and (anon.id == job or anon.last == job)
  end

  -- A request is to end. Without an id it leaves the record of its number that carries it, if its job has come
  -- before: else it would end with that once more. Returns false, and it is to stay there, where others without an id
  -- are the same operation. `runs`: the call of its number, if there is one.
  function leaves_its_record(request, runs)
    if request.id then return true end
    local number, job = request.number, request.job
    local flying = runs and read_record(INFLIGHT, runs)
    local holder = carries(flying, job) and flying or waiting_record(number)
    if not carries(holder, job) then return true end
    if holder.anon.count then return false end
    holder.anon = nil
    if holder == flying then
      write_record(INFLIGHT, runs, holder)
    elseif nobody_left(holder) then
      drop(number, holder)
      at_rest()
    else
      write_record(REQUESTS, number, holder)
    end
    return true
  end
end

-- Ends every script that may leave somebody waiting. `claims`: this process holds the line's drain
-- job, so the previous drainer is gone, or lost it.
-- Returns ask (µs at which this process must ask again, 0 for never) and put (1: put a drain job).
local function settle(who, why, ask, claims)
  if at_rest() then return 0, 0 end
  local waiting = waits()
  raise_flag(why == 'filling' and ask or nil)
  local token, at = drainer()
  local came_for_it = claims and token ~= nil
  if why == 'room' then
    -- This process stops, or shares: it hands the line over through the tube.
    if token == rules.token or came_for_it and token ~= 'tube:' .. who then
      delete_signs(DRAINER)
    end
    return 0, call_drainer(who)
  end
  if waiting == 0 or why == 'filling' and later() > 0 then
    ask = math.min(ask or math.huge, call('ZRANGE', LATER, 0, 0, 'WITHSCORES')[2] * 1000)
  end
  ask = math.min(ask or now, now + ASK_AT_LEAST_US)
  local ours = not token or token == rules.token or came_for_it
  if not ours and at <= ask + NEAR_US then return 0, 0 end
  local named = token == rules.token and math.abs(at - ask) <= NEAR_US
  if not named then name_drainer(ask) end
  return digits(ask), 0
end

local turn
do
  -- While one call alone tries, a number that failed more often tells less than one that failed less: those
  -- before it go to the end of their lists, as many as a script has time for. Else a few numbers that always
  -- fail would be all that is tried.
  local PASSED_OVER, passed, least = 30, 0, nil

  local function least_tries(tries)
    for _, list in ipairs({ MANUAL, AUTOMATIC }) do
      local listed = call('LRANGE', list, 0, PASSED_OVER - 1)
      local records = listed[1] and call('HMGET', REQUESTS, unpack(listed)) or {}
      for i, number in ipairs(listed) do
        local record = number ~= '' and (records[i] and decoded(records[i]) or {})
        tries = record and math.min(tries, record.tries or 0) or tries
      end
    end
    return tries
  end

  local function is_passed_over(record)
    if not record.tries or passed == math.min(PASSED_OVER, waits() + 1) or not calls_alone() then return false end
    least = least or least_tries(record.tries)
    if record.tries <= least then return false end
    passed, budget.left = passed + 1, budget.left - 2
    return true
  end

  -- Returns the grant for the next in line, or nil; why nobody more can be looked at now, or nil; and the grants
  -- of its riders, or nil.
  local function grant_next(base, index, at, lane, only)
    local number, list = next_number(only)
    if not number then return nil, 'empty' end
    if number == '' then return nil, 'more' end
    local record, runs = wanted(number, base)
    if record == false then return nil, 'more' end
    if not record then return nil end
    if runs then return put_behind(number, record) end
    local ends = quota_ends(number)
    if ends then
      budget.left = budget.left - 2
      return put_for_quota(number, record, ends)
    end
    if is_passed_over(record) then return put_tail(number, record) end
    local id, members = base .. ':' .. index, members_of(number, record, list, base)
    if #members == 1 then return grant(id, number, record, at, lane) end
    local lead, riders = grant_group(id, members, at, lane)
    return lead, nil, riders
  end

  -- Grants up to `room` calls for waiting requests, named base:1, base:2, …, each perhaps with riders.
  -- Returns the grants, and when nobody more may start: why and when to look again. A full process
  -- (room -1) is to come by itself as soon as it has room, and to say before long that it still waits.
  local function take(base, room)
    local grants, calls = {}, 0
    passed, least = 0, nil
    move_due()
    for _ = 1, 100 do
      if room == 0 then return grants, 'room', now end
      local at, lane, ask = opening()
      if not at then return grants, lane, ask end
      local only, company = leading()
      if company then return grants, 'filling', company end
      if calls == room then return grants, 'more', now end
      if room < 0 and waits() > 0 then return grants, 'full', now + ASK_AT_LEAST_US end
      if budget.left <= 0 then return grants, 'more', now end
      local done, granted, why, riders = pcall(grant_next, base, calls + 1, at, lane, only)
      -- A key of this number is not what it should be: a sweep puts it back into line. The worker
      -- is to hear of those that were granted before it.
      if not done and calls == 0 then error(granted, 0) end
      if not done then return grants, 'more', now end
      if why == 'empty' then return grants, why, nil end
      if why then return grants, why, now end
      if granted then
        calls = calls + 1
        table.insert(grants, granted)
        for i = 1, riders and #riders or 0 do table.insert(grants, riders[i]) end
      end
    end
    return grants, 'more', now
  end

  -- The grants of a script that is sent again because its reply was lost, and how many calls they are.
  local function taken_before(base)
    local grants, calls = {}, 0
    while group_before(base .. ':' .. (calls + 1), grants) do calls = calls + 1 end
    return grants, calls
  end

  -- What take does, and every step that frees a slot does next. Sent again it answers the same.
  -- first: the call that ends was still in flight, so this step has taken nothing before.
  function turn(base, room, claims, first)
    room = tonumber(room)
    local grants, calls = {}, 0
    if not first then grants, calls = taken_before(base) end
    local why, look_again = 'more', now
    local nothing_left = nobody_waits() and not signs()[DRAINS] and not signs()[IS_FLAGGED]
    if #grants == 0 and nothing_left then
      return grants, 'empty', 0, 0
    elseif #grants == 0 then
      grants, why, look_again = take(base, room)
    elseif calls < room then
      local at
      at, why, look_again = opening()
      if at then why, look_again = 'more', now end
    end
    local ask, put = settle(base, why, look_again, claims)
    return grants, why, ask, put
  end
end

-- Whether a call that has just ended leaves everything as it is for those who wait: nobody lacked its
-- slot, and somebody is named who asks in time: a process that is full is named for much later.
-- `room`: a process that stops hands the line over.
local function is_in_hand(room)
  if room == 0 or calls_alone() or members(LEASES) + 1 >= rules.concurrent then return false end
  -- Where some wait for company, others may not.
  if rules.together > 1 and waits() <= rules.together then return false end
  local _, at = drainer()
  return at ~= nil and at >= now and at <= now + rules.late_us + rules.window_us
end

-- What follows the end of a call; an empty `room`: nothing yet, others of its group end right behind.
-- `first`: as for `turn`.
local function what_follows(base, room, first, is_free)
  if room == '' then return {}, is_free and 'freed' or 'others', 0, 0 end
  return turn(base, room, false, first)
end

-- What every step does that ends a call unanswered: its request goes back into line where `put_back`
-- puts it, and the slot to the next in line. Does nothing to a call that this process lost.
local function end_unanswered(id, base, room, put_back)
  drop_ended(LEASES)
  local record = read_record(INFLIGHT, id)
  if not record or leads(id, record) then note_measured(id) end
  if record and not gathered(id, record) then return NOT_BEGUN end
  local number, is_free = land_to_wait(id, record, put_back)
  return { now, what_follows(base, room, number ~= nil, is_free) }
end

-- The same for several of a group, which go to the head of the line in their order. `ids`: one a line.
-- `note(id, record, nth, all)` comes before each goes back.
local function end_together(ids, base, room, note)
  drop_ended(LEASES)
  local all, records, any, is_free = {}, {}, false, false
  for id in string.gmatch(ids, '[^\n]+') do table.insert(all, id) end
  for i, id in ipairs(all) do
    records[i] = read_record(INFLIGHT, id) or false
    if not records[i] or leads(id, records[i]) then note_measured(id) end
    if records[i] and not gathered(id, records[i]) then return NOT_BEGUN end
  end
  -- The first comes last, and stands first then.
  for i = #all, 1, -1 do
    local number
    number, is_free = land_to_wait(all[i], records[i] or nil, function(number, record, id)
      note(id, record, i, #all)
      put_head(number, record)
    end)
    any = any or number ~= nil
  end
  return { now, what_follows(base, room, any, is_free) }
end
