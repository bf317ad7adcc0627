--[[
admit: one request asks for a call, and gets it or waits. Idempotent by call id and by job.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  id       of the call, new for every admission
  asked    JSON: number, job (key), id, given, age (ms), till (ms), auto, fields, trace, resend_of,
           webhook, cancels, put (ms), alone (rides with no others), full
           (true: this process has no room for a call)
  stored   JSON: state, output (JSON text), observed (ms) -- an answer that is fresh enough for this
           request and stored for its account; or empty

Uses     context: digits, quiet_until
         memory: count_open, drop_ended, waits
         state: account_for, anonymous_id, elsewhere, move, new_operation, note_account, operation_in, status,
           tally, tally_call
         record: fresh, join, read_record, serves, supersede, wait_again, waiting_record, write_record
         quotas: quota_ends
         lanes: opening
         waiting: move_due, nobody_waits, operations_waiting, push_last, put_behind, put_for_quota, put_head,
           put_tail, take_out, too_late
         flight: grant, grant_new, granted_before
         filling: company_ends, hurry_of
         taking: ask_by, call_drainer, drainer, leaves_its_record, raise_flag

Returns  {now, "granted", grant}        call it; grant: see lib/flight.lua
         {now, "parked", why, put, ask} it waits; put 1: put a drain job; ask: where this process has to ask for
                                        the line, at this instant, in µs; else none
         {now, "ended", state, why}     it ended before, expired, or a fresh answer was at hand; why: too_late
                                        or wait_list_full of an AUTOMATIC one that was not taken, else none
         {now, "reused", parcel}        its id is that of a request for this other parcel; '' if forgotten
         {now, "full", waiting}         max_waiting operations are waiting; it is only counted
         {now, "too_late", starts}      it was not taken: by the rate and the quotas alone its call could start
                                        at this time, in µs, when nobody wants it any more
         {now, "held", who}             its job came back, and a process that lives makes its call: ask again
                                        later; who: what that process tells of itself (limits/workers.py); {} where
                                        nothing is taken over before its lease ends
         {now, "dying", grant}          too many workers vanished over it: record it, then finish
         {now, "no_memory"}             Redis is full and nothing was changed: ask again later
         {now, "epoch"}                 this Redis lost its state: agree on an epoch first
         {now, "rules"}                 they were changed: learn them first
]]
-- company: µs until when it may wait for that, or nil; full: this process has no room.
local function parked(id, why, company, full)
  if nobody_waits() then return { now, 'parked', why, 0 } end
  raise_flag(company)
  if not company then return { now, 'parked', why, call_drainer(id) } end
  return { now, 'parked', why, ask_by(id, company, full) }
end

-- Sent again it may have been answered since it was parked: the drain job that it asked for is still
-- to be put.
local function ended(id, state, why)
  if drainer() == 'tube:' .. id then return parked(id, 'known') end
  return { now, 'ended', state, why }
end

-- The operation of a request, named; `known`: as it stands, nil for a new one.
local function operation_of(request, known)
  local operation = known or new_operation(request.number, request)
  operation.id, operation.anonymous = request.name, not request.id
  return operation
end

local function end_now(id, request, known, verdict, runs)
  if not leaves_its_record(request, runs) then return parked(id, 'known') end
  move(request.name, operation_of(request, known), verdict.state, verdict)
  return ended(id, verdict.state, verdict.why)
end

-- Whether a record carries an open operation. Where none does, somebody deleted it, and the id is as
-- good as new.
local function is_carried(operation, record)
  if record then return true end
  if operation.status == 'WAITING' or operation.status == 'RUNNING' then
    count_open(operation, -1)
    account_for('admitted', -1)
  end
  return false
end

-- As `opening`, but for a process that has room for a call only.
local function opening_for(request)
  if request.full then return nil, 'room' end
  return opening()
end

-- What the process tells of itself that was granted a call, nil where it is not known to live.
local living
do
  local LIVES_MS = 20000 -- as in limits/workers.py
  local told

  function living(id)
    -- What lies further ahead was noted before the clock stepped back.
    told = told or redis.pcall('ZRANGEBYSCORE', 'tracking:workers', '(' .. digits(now_ms),
      digits(now_ms + LIVES_MS))
    local token = '"token":"' .. (string.match(id, '^(.*)%-') or '') .. '"'
    for _, who in ipairs(told) do
      if string.find(who, token, 1, true) then return who end
    end
    return nil
  end
end

-- The job of a call that runs came back. Its worker may only have lost it, with a link to beanstalkd:
-- while that one lives the call is its own. Where it vanished the job goes on here, at once, with a
-- new permit. The old lease stays taken until it ends, because the old call may still be at the courier.
-- Where two calls at once would do harm, the job waits for the end of that lease.
local function go_on(id, request, old, record)
  if record.forgotten then return ended(id, 'CANCELLED') end
  if not record.dying then
    local leased = call('ZSCORE', LEASES, old)
    local who = leased and (living(old) or not rules.takes_over and '{}')
    if who then return { now, 'held', who } end
    record.deaths = (record.deaths or 0) + 1
    record.dying = record.deaths > rules.deaths or nil
    tally_call('lost', record.at)
  end
  if record.dying then
    write_record(INFLIGHT, old, record)
    return { now, 'dying', granted_before(old) }
  end
  local number = request.number
  local at, lane = nil, 'account_quota'
  if not quota_ends(number) then at, lane = opening_for(request) end
  wait_again(record)
  if at then
    local granted = grant(id, number, record, at, lane)
    call('HDEL', INFLIGHT, old)
    return { now, 'granted', granted }
  end
  put_head(number, record)
  call('HDEL', INFLIGHT, old, '=' .. number)
  return parked(id, lane, company_ends(request) and now, request.full)
end

-- A request that is not taken is in no tube any more: what a door noted of it, or is about to note where
-- nothing stands, would tell so for a day.
local function unqueue(request)
  if request.unknown then call('SET', STATUS .. request.id, '{"status":null}', 'PX', 10000) end
end

-- Nobody asked for a re-check, and the next one is due before long: one that is not taken just ends.
local NO_ROOM = {
  state = 'CANCELLED', why = 'wait_list_full',
  output = '{"code":"wait_list_full","message":"no room was left for a re-check"}',
}
local NO_TIME = {
  state = 'CANCELLED', why = 'too_late',
  output = '{"code":"too_late","message":"its call could not start before it expires"}',
}

local function full(id, request, known)
  if request.auto then return end_now(id, request, known, NO_ROOM) end
  tally('full')
  unqueue(request)
  return { now, 'full', operations_waiting(request) }
end

-- One more that waits. Of those without an id only the record tells, while they wait.
local function enter(request, known)
  if request.id then move(request.id, operation_of(request, known), 'WAITING') end
end

-- Nobody has asked for this number yet. `known`: its operation, if there is one; `flying`: the record of its call, if
-- one runs.
local function ask_courier(id, request, known, flying)
  local number = request.number
  local idle = nobody_waits()
  if not idle and operations_waiting(request) >= rules.max_waiting then
    return full(id, request, known)
  end
  if not flying and not idle then
    move_due()
    idle = waits() == 0
  end
  local starts = not flying and too_late(request, idle)
  if starts and request.auto then return end_now(id, request, known, NO_TIME) end
  if starts then
    tally('too_late')
    unqueue(request)
    return { now, 'too_late', math.floor(starts) }
  end
  note_account(number)
  local record = { since = now_ms, auto = request.auto }
  join(record, request)
  if flying then
    put_behind(number, record)
    enter(request, known)
    return parked(id, 'running')
  end
  local ends = quota_ends(number)
  if ends then
    put_for_quota(number, record, ends)
    enter(request, known)
    return parked(id, 'account_quota')
  end
  local at, lane = nil, 'queue'
  if idle then at, lane = opening_for(request) end
  local company = at and company_ends(request)
  if company and company > now then at, lane = nil, 'filling' end
  if not at then
    if request.till then record.hurry = hurry_of(request) end
    put_tail(number, record)
    enter(request, known)
    return parked(id, lane, company_ends(request), request.full)
  end
  record.job = request.job
  return { now, 'granted', grant_new(id, number, record, operation_of(request, known), at, lane) }
end

-- An AUTOMATIC request that is wanted by a MANUAL one too goes to the end of the MANUAL list.
local function promote(number, record, request)
  if not record.auto or request.auto then return end
  if not record.state then
    take_out(AUTOMATIC, number, record.position)
    record.position = push_last(MANUAL, number)
  end
  record.auto = nil
end

return function(id, asked, stored)
  drop_ended(LEASES)
  local request = cjson.decode(asked)
  if not rules.operations then request.id = nil end
  local number = request.number
  local calls = call('HMGET', INFLIGHT, id, '=' .. number)
  if calls[1] then return { now, 'granted', granted_before(id) } end
  local quiet, unknown = quiet_until()
  if not quiet then return { now, unknown } end
  local name = request.id or anonymous_id(number, request.job)
  request.name = name
  -- One without an id whose parcel was forgotten since it ended is known by a key that does not name that.
  local names = { STATUS .. name, ANSWER .. number, not request.id and STATUS .. redis.sha1hex(name) or nil }
  local known = call('MGET', unpack(names))
  local operation = operation_in(status(name, known[1]) or known[3])
  if request.id then request.unknown = not operation end
  local other = operation and elsewhere(name, operation, number)
  if other then
    tally('id_reused')
    return { now, 'reused', other }
  end
  if operation and ENDED[operation.status] then return ended(id, operation.status) end
  if is_full then return { now, 'no_memory' } end
  if request.till and request.till <= now_ms then
    return end_now(id, request, operation, EXPIRED, calls[2])
  end
  local heard = rules.remembers and fresh(known[2], request.age)
  local answer = heard and serves(heard, request) and heard or fresh(stored, request.age)
  if answer then return end_now(id, request, operation, answer, calls[2]) end

  local runs = calls[2]
  local flying = runs and read_record(INFLIGHT, runs)
  if flying and flying.job == request.job then return go_on(id, request, runs, flying) end
  local joined = flying and not request.id and flying.anon
  if joined and (joined.id == request.job or joined.last == request.job) then
    return parked(id, 'known')
  end
  local record = waiting_record(number)
  if (record or flying) and not rules.merges then return parked(id, 'known') end
  local is_repeat = request.id and operation and is_carried(operation, record or flying)
  if request.id and not is_repeat then operation = nil end
  if record then
    local is_new = request.id and not is_repeat
    local replaces = is_new and request.auto and supersede(number, record, request)
    if is_new and not replaces and operations_waiting(request) >= rules.max_waiting then
      return full(id, request, operation)
    end
    promote(number, record, request)
    if not is_repeat then
      join(record, request)
      enter(request, operation)
    end
    local hurry = hurry_of(request)
    if hurry then record.hurry = math.min(record.hurry or hurry, hurry) end
    write_record(REQUESTS, number, record)
    return parked(id, record.state or 'queue', not record.state and company_ends(request), request.full)
  end
  if is_repeat then return parked(id, 'known') end
  return ask_courier(id, request, operation, flying)
end
