--[[
flight: calls that run. wait_inflight holds call id → record and =number → call id, so that a
number never runs twice at once and the record outlives the worker.

A group is a call and those that ride with it, one HTTP request for several numbers: it has the start and the
lease of the call that leads it. #lead → how many of the group still run: its slot is free with the last of
them, whichever that is, so that this field may outlive the record of the lead. A rider's id is that of the
lead with ~2, ~3, … behind.
]]
local function running(number)
  return call('HGET', INFLIGHT, '=' .. number)
end

-- The call whose slot and start a call shares, as its id tells: its own, unless it rides.
local function lead_of(id)
  return string.match(id, '^(.*)~%d+$') or id
end

-- at: µs, of the start; lead: of its group, or nil. Returns the record as it is to be written.
local function flown(number, record, at, lead)
  local waited = not record.n and record.listed and rest_of(number, record)
  if record.state then record.state = nil end
  record.position = nil
  record.n, record.at, record.granted, record.lead = number, digits(at), digits(now), lead
  if waited then move_rest(waited, rest_of(number, record)) end
  return cjson.encode(record)
end

local function put_in_flight(id, number, record, at)
  local text = flown(number, record, at)
  call('HSET', INFLIGHT, id, text, '=' .. number, id)
  return text
end

local grant, grant_new, grant_group, granted_before, group_before
do
  local function reply_of(id, record, text)
    local ids = record.ids and ids_of(record.n, record)
    return { id, record.at, record.granted, text, ids and cjson.encode({ ids = ids }) or '{}' }
  end

  local function begin(id, at, lane, numbers)
    budget.left = budget.left - 2
    start(id, at, lane, numbers)
    add_lease(id)
    count('calls')
    -- Elsewhere there are as many as there are calls.
    if rules.together > 1 then count('numbers', numbers) end
  end

  -- Returns {call id, start in µs, grant in µs, record, {ids: of at most 100 operations}}.
  function grant(id, number, record, at, lane)
    begin(id, at, lane, 1)
    if rules.rationed then charge(number, record, {}) end
    local reply = reply_of(id, record, put_in_flight(id, number, record, at))
    run_all(number, record)
    return reply
  end

  -- The same for several numbers: {number, record} of each, the lead's first. Returns the grant of the lead, and
  -- those of its riders.
  function grant_group(id, members, at, lane)
    begin(id, at, lane, #members)
    local fields, grants, charged = { '#' .. id, #members }, {}, {}
    for i, each in ipairs(members) do
      local own, number, record = i == 1 and id or id .. '~' .. i, unpack(each)
      if rules.rationed then charge(number, record, charged) end
      local text = flown(number, record, at, id)
      local at_end = #fields
      fields[at_end + 1], fields[at_end + 2], fields[at_end + 3], fields[at_end + 4] = own, text, '=' .. number, own
      table.insert(grants, reply_of(own, record, text))
    end
    call('HSET', INFLIGHT, unpack(fields))
    note_operations(members)
    for _, each in ipairs(members) do run_all(unpack(each)) end
    return table.remove(grants, 1), grants
  end

  -- The same for a record of one new request, whose operation was read or made a moment ago.
  function grant_new(id, number, record, operation, at, lane)
    move(operation.id, operation, 'RUNNING', { started = now_ms })
    begin(id, at, lane, 1)
    if rules.rationed then charge(number, record, {}) end
    return reply_of(id, record, put_in_flight(id, number, record, at))
  end

  -- A grant that was made before: the reply was lost and the script is sent again.
  function granted_before(id)
    local text = call('HGET', INFLIGHT, id)
    local record = record_in(INFLIGHT, id, text)
    return record and reply_of(id, record, text)
  end

  -- The same of a call and of those that ride with it, added to `grants`. Returns whether there was one.
  function group_before(id, grants)
    local text = call('HGET', INFLIGHT, id)
    local record = record_in(INFLIGHT, id, text)
    if not record then return false end
    local before, members = reply_of(id, record, text), 1
    while before do
      table.insert(grants, before)
      members = members + 1
      before = record.lead and granted_before(id .. '~' .. members)
    end
    return true
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

-- Whether a call is one to the courier: what is done or counted once for a group is done for its lead.
local function leads(id, record)
  return not record.lead or record.lead == id
end

-- Whether a call that ends frees its slot: others of its group may still run.
local function is_last(id, record)
  if not record then return running_of(id) == 0 end
  return not record.lead or running_of(record.lead) <= 1
end

-- Takes a call out of flight. `runs`: its number's call, if that is known; of `record` its number and its lead
-- are read only; `gone`: where the caller deletes the fields of several calls together, they are added to that.
-- Returns whether its slot was still held, and whether it is free now.
local function land(id, record, runs, gone)
  local last, lead = is_last(id, record), record and record.lead
  local leased = not last or end_lease(lead or id)
  if not record then return leased, last end
  if lead then set_running(lead, last and 0 or running_of(lead) - 1) end
  local of_number = (runs or running(record.n)) == id and '=' .. record.n or id
  if gone then
    gone[#gone + 1], gone[#gone + 2] = id, of_number
  else
    call('HDEL', INFLIGHT, id, of_number)
  end
  return leased, last
end

-- A forgotten call goes back nowhere; what was put behind it since then takes a turn of its own.
local function go_on_without(number)
  local behind = read_record(REQUESTS, number)
  if behind and behind.state == 'behind' then put_tail(number, behind) end
end

-- The same for a call that goes back to wait where `put_back` puts it. That comes first: should a key not be
-- what it must be, the call's record is still there. Returns its number, or nil when it is not ours (any
-- more), and whether it has freed its slot.
local function land_to_wait(id, record, put_back)
  if not record then
    local leased, is_free = land(id)
    return nil, leased and is_free
  end
  local number, lead, goes_on = record.n, record.lead, not record.forgotten
  if goes_on then
    wait_again(record)
    put_back(number, record, id)
  end
  local leased, is_free = land(id, { n = number, lead = lead })
  if not goes_on then go_on_without(number) end
  return goes_on and number or nil, leased and is_free
end

-- The label of a number that comes back from a call for several, as the nth of so many of them: one of them may
-- have spoilt that call. Halves ride apart, and are halved in their turn.
local function half_of(id, nth, all)
  return lead_of(id) .. (nth * 2 <= all + 1 and '/1' or '/2')
end
