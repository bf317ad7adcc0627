--[[
sweep: put right what vanished workers left behind, for one line.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  who      new for every sweep; empty: this worker could not drain the line, so it calls no drainer

Uses     context: decoded, quiet_until
         memory: clamp, drop_ended, entries, later, members, nothing_is_open, waits
         state: anonymous_id, open_among, operation_in, status, tally_call
         record: came_at, nobody_left, read_record, record_in, rest_of, set_since, write_record
         brake: patience_ends
         waiting: correct_first, has_place, move_due, next_number, nobody_waits, put_behind, put_head, put_tail
         flight: gathered, granted_before, half_of, land_to_wait, lead_of, leads, put_in_flight, running
         groups: wanted
         taking: at_rest, call_drainer, raise_flag

Returns  {now, swept, dying, put, more}
         swept     calls whose lease ended without a word, now back at the head of their list
         dying     grants of calls over which too many workers vanished, and of numbers that are given up:
                   record, then finish them
         put       1: somebody waits and nobody drains, so put a drain job
         more      1: send another sweep now, there may be more to put right
]]
-- Whether an earlier sweep gave it to a worker to record it, less than a lease ago.
local function is_claimed(dying)
  return type(dying) == 'table' and dying.till > now_ms
end

local LOOK_AT_FIELDS = 100

-- Calls of one script were granted at one instant: their ids tell their order. Those of a group stand together.
local function was_after(one, other)
  if one.granted ~= other.granted then return one.granted > other.granted end
  if one.index ~= other.index then return one.index > other.index end
  if one.lead ~= other.lead then return one.lead > other.lead end
  return one.rider > other.rider
end

local function lost_call(id, record)
  local index, rider = string.match(id, ':(%d+)~?(%d*)$')
  return {
    id = id, record = record, lead = lead_of(id), granted = tonumber(record.granted),
    index = tonumber(index) or 0, rider = tonumber(rider) or 1,
  }
end

-- Of lost calls that were granted together none is charged, as any of them may have killed the worker: they are
-- called in halves. Returns how many of each group are lost.
local function sizes_of(lost)
  local sizes = {}
  for _, each in ipairs(lost) do sizes[each.lead] = (sizes[each.lead] or 0) + 1 end
  return sizes
end

local function lost_calls()
  -- Where the clock leapt forward, leases ended of calls that still run.
  if (quiet_until() or 0) > now then return {} end
  local lost, groups, leased, calls = {}, {}, {}, call('HGETALL', INFLIGHT)
  for i = 1, #calls, 2 do
    local id, text = calls[i], calls[i + 1]
    if string.sub(id, 1, 1) == '=' then
      if call('HEXISTS', INFLIGHT, text) == 0 then call('HDEL', INFLIGHT, id) end
    elseif string.sub(id, 1, 1) == '#' then
      table.insert(groups, id)
    else
      local lead = lead_of(id)
      if leased[lead] == nil then leased[lead] = call('ZSCORE', LEASES, lead) end
      local record = not leased[lead] and record_in(INFLIGHT, id, text)
      if record and not is_claimed(record.dying) then table.insert(lost, lost_call(id, record)) end
    end
  end
  for _, group in ipairs(groups) do
    if leased[string.sub(group, 2)] == nil then call('HDEL', INFLIGHT, group) end
  end
  -- Newest first: each goes to the head, so the oldest ends up first in line.
  table.sort(lost, was_after)
  return lost
end

-- Whether a record that was set aside is whole again, and no call runs for its number: one that does may still
-- hold the slot of a group, or be of the same job, which came again.
local function may_wait_again(number, id, record)
  if not (number and record and tonumber(record.since)) then return false end
  local runs = running(number)
  return not (id and call('ZSCORE', LEASES, lead_of(id))) and (not runs or runs == id)
end

-- Its job may have come again, and its operation have ended by then.
local function forget_ended(number, record)
  local ended = record.anon and operation_in(status(anonymous_id(number, record.anon.id)))
  if ended and ENDED[ended.status] then record.anon = nil end
end

-- Records that a person has corrected where they were set aside wait again, together with what came for their
-- numbers since. Looks at a few of them.
local function put_back_corrected()
  local FEW, EACH = 20, 3
  -- A key of another type is named by limits/admin/soundness.py.
  local aside = redis.pcall('HRANDFIELD', UNREADABLE, FEW, 'WITHVALUES')
  for i = 1, #aside, 2 do
    local key, field = string.match(aside[i], '^(%S+) (.*)$')
    local record, id = decoded(aside[i + 1]), key == INFLIGHT and field or nil
    local number = record and (id and record.n or not id and field)
    if may_wait_again(number, id, record) then
      budget.left = budget.left - EACH
      forget_ended(number, record)
      if id then
        record.forgotten = record.forgotten or nobody_left(record) or nil
        land_to_wait(id, record, put_head)
      elseif record.state ~= 'behind' and not read_record(REQUESTS, number) and has_place(number, record) then
        write_record(REQUESTS, number, record)
      elseif not nobody_left(record) then
        put_head(number, record)
      end
      call('HDEL', UNREADABLE, aside[i])
    end
  end
end

local function is_placed(number, record)
  return record.state ~= 'later' and running(number) or has_place(number, record)
end

-- Whether records may have no place: one of the lists is empty, and more records than it explains wait. Each
-- call that runs may have one of its number behind it.
local function may_have_no_place()
  if nobody_waits() then return true end
  if entries(MANUAL) > 0 and entries(AUTOMATIC) > 0 then return false end
  return call('HLEN', REQUESTS) > waits() + later() + call('HLEN', INFLIGHT) / 2
end

-- Puts records whose number has no place back in line, whatever took it from them: once a list is empty, because
-- somebody deleted it or because all before them had their turn. Looks at about a hundred records at once, though
-- a small hash is scanned whole; the field !relist tells where to go on. Returns whether to go on now. Who has a
-- place must get no second one: its number would be called once more, as one that somebody pushed by hand.
local function relist()
  local from = call('HGET', REQUESTS, '!relist')
  if not (from or may_have_no_place()) then return false end
  correct_first(MANUAL)
  correct_first(AUTOMATIC)
  local relisted, reply = false, call('HSCAN', REQUESTS, from or 0, 'COUNT', LOOK_AT_FIELDS)
  local ahead, fields, is_cut = reply[1], reply[2], false
  for i = 1, #fields, 2 do
    local number = fields[i]
    local record = number ~= '!relist' and record_in(REQUESTS, number, fields[i + 1])
    budget.left = budget.left - 0.3
    if record and not is_placed(number, record) then
      is_cut = relisted and budget.left <= 0
      if is_cut then break end
      put_tail(number, record)
      budget.left, relisted = budget.left - 2, true
    end
  end
  if is_cut or ahead ~= '0' then
    call('HSET', REQUESTS, '!relist', is_cut and (from or '0') or ahead)
  elseif from then
    call('HDEL', REQUESTS, '!relist')
  end
  return is_cut or relisted and ahead ~= '0'
end

-- The ids of the oldest operations of a record, AT_ONCE and those that stand in the record itself.
local function oldest_ids(number, record)
  local ids = record.listed and call('LRANGE', rest_of(number, record), -AT_ONCE, -1) or {}
  for _, id in ipairs(record.newest or {}) do table.insert(ids, id) end
  return ids
end

-- ms, of the oldest that still waits: who came before may have been cancelled since.
local function waits_since(number, record)
  local since = record.anon and came_at(record) or now_ms
  for _, operation in pairs(open_among(oldest_ids(number, record), number)) do
    since = math.min(since, operation.at)
  end
  return since
end

-- Returns the grant of a call that somebody is to record as dead and to finish.
local function dying_grant(id, record)
  local dying = record.dying
  if dying == true then
    write_record(INFLIGHT, id, record)
    return granted_before(id)
  end
  dying.till = now_ms + math.floor(rules.lease_us / 1000)
  write_record(INFLIGHT, id, record)
  local reply, ids = granted_before(id), {}
  local named = oldest_ids(record.n, record)
  for i, operation in pairs(open_among(named, record.n)) do
    if operation.at <= dying.before then table.insert(ids, named[i]) end
  end
  reply[5] = cjson.encode({ ids = ids })
  return reply
end

-- In flight without a slot, as nothing is called.
local function put_dying(id, number, record, before, why)
  record.dying = { why = why, before = before }
  put_in_flight(id, number, record, now)
  return dying_grant(id, record)
end

-- Who was refused, and waited for too long while every call of the line was, ends. Who was never asked waits on.
-- Adds the grants of such to `dying`, of those at the head of the line, as many as the script has time for; the
-- next sweep looks further.
local function give_up(who, dying)
  local before, why, refused = patience_ends()
  local stay = {}
  -- Without a name this worker could ask nobody of the line: others give up what has to end.
  local may_end = before and who ~= ''
  while may_end and budget.left > 0 do
    local number = next_number()
    if not number or number == '' then break end
    budget.left = budget.left - 2
    local record, runs = wanted(number, who)
    local is_old = record and record.since <= before
    if is_old then set_since(record, waits_since(number, record)) end
    if record and runs then
      put_behind(number, record)
    elseif record and (record.since > before or (record.refused or 0) < refused) then
      table.insert(stay, 1, { number, record })
    elseif record then
      -- Sent again after a lost reply it finds others: each has an id of its own.
      table.insert(dying, put_dying(who .. ':' .. number, number, record, before, why))
    end
  end
  for _, each in ipairs(stay) do put_head(unpack(each)) end
end

return function(who)
  -- A clock that stepped back must not keep a dead worker's slot for the length of its step.
  clamp(LEASES, now + rules.lease_us)
  clamp(STARTS, now + rules.lane_us)
  drop_ended(LEASES)
  drop_ended(STARTS)
  local swept, dying, more = 0, {}, false
  if call('HLEN', INFLIGHT) > 0 then
    local found = lost_calls()
    local sizes, nth = sizes_of(found), 0
    for i, lost in ipairs(found) do
      local id, record, size = lost.id, lost.record, sizes[lost.lead]
      -- A group is halved in one script, which is then perhaps longer.
      nth = nth > 1 and nth - 1 or size
      more = nth == size and (i > AT_ONCE or budget.left <= 0)
      if more then break end
      budget.left = budget.left - 3
      if not record.dying and not gathered(id, record) then more = true break end
      if record.lead then
        record.half = half_of(id, nth, size)
      elseif not record.dying then
        record.deaths = (record.deaths or 0) + 1
        record.dying = record.deaths > rules.deaths or nil
      end
      record.forgotten = record.forgotten or nobody_left(record) or nil
      if record.forgotten then
        land_to_wait(id, record)
      elseif record.dying then
        table.insert(dying, dying_grant(id, record))
      else
        if leads(id, record) then tally_call('lost', record.at) end
        land_to_wait(id, record, put_head)
        swept = swept + 1
      end
    end
  end
  put_back_corrected()
  more = more or relist()
  move_due()
  give_up(who, dying)
  local put = 0
  if waits() > 0 then
    if who ~= '' then
      raise_flag()
      put = call_drainer(who)
    end
  elseif at_rest() and call('EXISTS', INFLIGHT, REQUESTS, UNREADABLE) == 0 then
    nothing_is_open()
    -- The slot of a call that was taken over is counted until its lease ends: a later sweep ends it.
    if members(LEASES) == 0 then call('SREM', LINES, line) end
  end
  return { now, swept, dying, put, more and 1 or 0 }
end
