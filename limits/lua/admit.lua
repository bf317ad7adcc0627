--[[
admit: one request asks for a call, and gets it or waits. Idempotent by call id and by job.

KEYS     of the slug, see lib/slug.lua
ARGV[1]  rules     see lib/slug.lua
ARGV[2]  reports   see lib/slug.lua
ARGV[3]  call id   new for every admission
ARGV[4]  request   JSON: number, job (key), id, given, age (ms), till (ms), auto, fields, trace
ARGV[5]  answer    JSON: state, output (JSON text), tracking, observed (ms) -- stored and fresh
                   enough for this request; or empty

Returns  {now, "granted", grant}        call it; grant: see lib/flight.lua
         {now, "parked", why, put}      it waits; put 1: put a drain job
         {now, "ended", state}          it ended before, expired, or a fresh answer was at hand
         {now, "full", waiting}         max_waiting are waiting; nothing was changed
         {now, "dying", grant}          too many workers vanished over it: record it, then finish
         {now, "epoch"}                 this Redis lost its state: agree on an epoch first
]]
local id, request = ARGV[3], cjson.decode(ARGV[4])
local number = request.number

local function end_now(verdict)
  end_operation(request.id or request.job, verdict,
    request.id and STATUS_KEEP_MS or ANONYMOUS_KEEP_MS)
  return { now, 'ended', verdict.state }
end

local function parked(why)
  project()
  if waits() > 0 or call('EXISTS', LATER) == 1 then
    raise_flag(waits())
    return { now, 'parked', why, call_drainer(id) }
  end
  return { now, 'parked', why, 0 }
end

-- The job of a call that runs: its worker vanished, so it goes on here, at once, with a new permit.
-- The old lease stays taken until it ends, because the old call may still be at the courier.
local function go_on(old, record)
  if not record.dying then
    record.deaths = (record.deaths or 0) + 1
    record.dying = record.deaths > rules.deaths or nil
    call('HINCRBY', COUNTS, 'taken_over', 1)
  end
  if record.dying then
    write_record(INFLIGHT, old, record)
    return { now, 'dying', granted_before(old) }
  end
  local at, lane = opening()
  call('HDEL', INFLIGHT, old, '=' .. number)
  if at then return { now, 'granted', grant(id, number, record, at, lane) } end
  wait_again(record)
  put_head(number, record)
  return parked(lane)
end

reap()
local before = granted_before(id)
if before then return { now, 'granted', before } end
if not quiet_until() then return { now, 'epoch' } end
local state = state_of(request.id or request.job)
if ENDED[state] then return { now, 'ended', state } end
if request.till and request.till <= now_ms then return end_now(EXPIRED) end
local answer = fresh(call('GET', ANSWER .. number), request.age) or fresh(ARGV[5], request.age)
if answer then return end_now(answer) end

local runs = running(number)
local flying = runs and read_record(INFLIGHT, runs)
if flying and flying.job == request.job then return go_on(runs, flying) end
local known = flying and not request.id and flying.anon
if known and (known.id == request.job or known.last == request.job) then return parked('known') end
local record = read_record(REQUESTS, number)
if record then
  promote(number, record, request)
  join(record, request)
  write_record(REQUESTS, number, record)
  return parked(record.state or 'queue')
end
if waits() >= rules.max_waiting then return { now, 'full', waits() } end
record = record_of(request)
if not join(record, request) then return parked('known') end
if flying then
  put_behind(number, record)
  return parked('running')
end
move_due()
local at, lane = nil, 'queue'
if waits() == 0 then at, lane = opening() end
if not at then
  put_tail(number, record)
  return parked(lane)
end
record.job = request.job
return { now, 'granted', grant(id, number, record, at, lane) }
