--[[
flight: calls that run. wait_inflight holds call id → record and =number → call id, so that a
number never runs twice at once and the record outlives the worker.
]]
local function running(number)
  return call('HGET', INFLIGHT, '=' .. number)
end

-- at: µs, of the start. Returns the record as it is written.
local function put_in_flight(id, number, record, at)
  local waited = not record.n and record.listed and rest_of(number, record)
  record.state, record.position = nil, nil
  record.n, record.at, record.granted = number, digits(at), digits(now)
  if waited then move_rest(waited, rest_of(number, record)) end
  local text = cjson.encode(record)
  call('HSET', INFLIGHT, id, text, '=' .. number, id)
  return text
end

local grant, grant_new, granted_before
do
  local function reply_of(id, record, text)
    local ids = record.ids and ids_of(record.n, record)
    return { id, record.at, record.granted, text, ids and cjson.encode({ ids = ids }) or '{}' }
  end

  local function begin(id, number, record, at, lane)
    budget.left = budget.left - 2
    start(id, at, lane)
    add_lease(id)
    count('calls')
    return reply_of(id, record, put_in_flight(id, number, record, at))
  end

  -- Returns {call id, start in µs, grant in µs, record, {ids: of at most 100 operations}}.
  function grant(id, number, record, at, lane)
    local reply = begin(id, number, record, at, lane)
    run_all(number, record)
    return reply
  end

  -- The same for a record of one new request, whose operation was read or made a moment ago.
  function grant_new(id, number, record, operation, at, lane)
    move(operation.id, operation, 'RUNNING', { started = now_ms })
    return begin(id, number, record, at, lane)
  end

  -- A grant that was made before: the reply was lost and the script is sent again.
  function granted_before(id)
    local text = call('HGET', INFLIGHT, id)
    local record = record_in(INFLIGHT, id, text)
    return record and reply_of(id, record, text)
  end
end

-- Before a call goes back to wait: where many operations came with it, and many more while it ran, its older
-- ones join those behind it, as many as the script has time for. Returns false when there are more: the step is
-- to be sent again, and nothing else was done yet.
local function gathered(id, record)
  local FEW, TOGETHER, TOGETHER_COSTS = 4000, 1000, 50
  local many = not record.forgotten and (record.listed or 0) > FEW
  local behind = many and read_record(REQUESTS, record.n)
  if not behind or (behind.listed or 0) <= FEW then return true end
  wait_again(record)
  local from, to = rest_of(record.n, record), rest_of(record.n, behind)
  while record.listed > FEW and budget.left > 0 do
    budget.left = budget.left - TOGETHER_COSTS
    local ids = call('LPOP', from, TOGETHER) or {}
    if #ids > 0 then call('RPUSH', to, unpack(ids)) end
    record.listed = #ids > 0 and record.listed - #ids or 0 -- somebody has deleted the list
    record.ids, behind.ids = math.max(0, record.ids - #ids), (behind.ids or 0) + #ids
    behind.listed, behind.todo = behind.listed + #ids, nil
  end
  write_record(REQUESTS, record.n, behind)
  write_record(INFLIGHT, id, record)
  return record.listed <= FEW
end

-- Takes a call out of flight. `runs`: its number's call, if that is known; of `record` its number is read
-- only. Returns whether its lease
-- was still there.
local function land(id, record, runs)
  local leased = end_lease(id)
  if not record then return leased end
  if (runs or running(record.n)) == id then
    call('HDEL', INFLIGHT, id, '=' .. record.n)
  else
    call('HDEL', INFLIGHT, id)
  end
  return leased
end

-- A forgotten call goes back nowhere; what was put behind it since then takes a turn of its own.
local function go_on_without(number)
  local behind = read_record(REQUESTS, number)
  if behind and behind.state == 'behind' then put_tail(number, behind) end
end

-- The same for a call that goes back to wait where `put_back` puts it. That comes first: should a key not be
-- what it must be, the call's record is still there. Returns its number, or nil when it is not ours (any
-- more).
local function land_to_wait(id, record, put_back)
  if not record then
    land(id)
    return nil
  end
  local number, goes_on = record.n, not record.forgotten
  if goes_on then
    wait_again(record)
    put_back(number, record)
  end
  land(id, { n = number })
  if not goes_on then return go_on_without(number) end
  return number
end
