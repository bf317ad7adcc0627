--[[
operations: their ends. An operation ends once, because its status key says so; counters move with
that transition and with nothing else.

A verdict: state (SUCCESS, ERROR or CANCELLED), output (JSON text), tracking (text or nil),
started (ms or nil), observed (ms: when the answer was asked for).
]]
local STATUS_KEEP_MS = 86400000
-- A job without an id can only come back by a redelivery, so its end is kept for minutes only.
local ANONYMOUS_KEEP_MS = 900000
local AT_ONCE = 100

local ENDED = { SUCCESS = true, ERROR = true, CANCELLED = true }

local dates, instants = {}, {}

-- Days since 1970 as YYYY-MM-DD.
local function date_of(days)
  if dates[days] then return dates[days] end
  -- Days to a date: H. Hinnant's civil_from_days, for years after 1970.
  local z = days + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local y = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524)
    - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * y + math.floor(y / 4) - math.floor(y / 100))
  local month = math.floor((5 * doy + 2) / 153)
  local day = doy - math.floor((153 * month + 2) / 5) + 1
  month = month < 10 and month + 3 or month - 9
  local year = y + era * 400 + (month <= 2 and 1 or 0)
  dates[days] = string.format('%04d-%02d-%02d', year, month, day)
  return dates[days]
end

-- JSON. Calls that were granted together began together, so few instants are asked for.
local function iso(ms)
  if not ms then return 'null' end
  if instants[ms] then return instants[ms] end
  local seconds = math.floor(ms / 1000)
  local days = math.floor(seconds / 86400)
  local rest = seconds - days * 86400
  instants[ms] = string.format('"%sT%02d:%02d:%02d.%03dZ"', date_of(days),
    math.floor(rest / 3600), math.floor(rest / 60) % 60, rest % 60, ms % 1000)
  return instants[ms]
end

local function state_of(id)
  local text = call('GET', STATUS .. id)
  return text and cjson.decode(text).status or nil
end

local function status_text(state, verdict)
  local ends = ENDED[state] and now_ms or nil
  return '{"status":"' .. state .. '","startedAt":' .. iso(verdict.started)
    .. ',"finishedAt":' .. iso(ends) .. ',"output":' .. (verdict.output or 'null')
    .. ',"tracking":' .. (verdict.tracking and cjson.encode(verdict.tracking) or 'null') .. '}'
end

-- Returns false when it had ended before.
local function end_operation(id, verdict)
  if ENDED[state_of(id)] then return false end
  call('SET', STATUS .. id, status_text(verdict.state, verdict), 'PX', STATUS_KEEP_MS)
  count(verdict.state)
  return true
end

-- The same for requests without an id: they are never RUNNING, so what is there is an end.
local function end_anonymous(id, verdict)
  local text = status_text(verdict.state, verdict)
  if not call('SET', STATUS .. id, text, 'PX', ANONYMOUS_KEEP_MS, 'NX') then return false end
  count(verdict.state)
  return true
end

-- The answer in `text`, if it is at most `age` ms old (nil: the default); one of the future is of
-- before a step back of the clock.
local function fresh(text, age)
  local answer = text and text ~= '' and cjson.decode(text)
  local old = answer and now_ms - answer.observed
  return old and old >= 0 and old < (age or rules.max_age_ms) and answer or nil
end

-- Takes the next operation with an id off the record. Returns its id and itself, or nil.
local function next_operation(record)
  while record.heads and #record.heads > 0 do
    local id = table.remove(record.heads, 1)
    local operation = read_record(REQUESTS, '#' .. id)
    if operation then
      if operation.prev then table.insert(record.heads, 1, operation.prev) end
      return id, operation
    end
  end
  record.heads, record.ids = nil, nil
  return nil
end

local function everyone() return true end

-- Ends at most AT_ONCE operations that `ends(at, age, till)` names; the others stay on the record,
-- but for those that ended otherwise (cancelled).
-- Returns true when every operation was looked at; else call again with the same record.
local function end_where(record, verdict, ends)
  if ends == everyone and record.kept then
    for _, head in ipairs(record.kept) do table.insert(record.heads, head) end
    record.kept, record.kept_ids = nil, nil
  end
  for _ = 1, AT_ONCE do
    local id, operation = next_operation(record)
    if not id then break end
    if ENDED[state_of(id)] or ends(operation.at, operation.age, operation.till) then
      end_operation(id, verdict)
      call('HDEL', REQUESTS, '#' .. id)
    else
      record.kept = record.kept or {}
      operation.prev = record.kept[1]
      record.kept[1] = id
      record.kept_ids = (record.kept_ids or 0) + 1
      write_record(REQUESTS, '#' .. id, operation)
    end
  end
  if record.heads and #record.heads > 0 then return false end
  record.heads, record.ids, record.kept, record.kept_ids = record.kept, record.kept_ids, nil, nil
  local anon = record.anon
  if anon and ends(anon.at, anon.age, anon.till) then
    end_anonymous(anon.id, verdict)
    record.anon = nil
  end
  return true
end

local function nobody_left(record)
  return not record.anon and not record.heads
end

-- The ids of at most AT_ONCE operations, newest first.
local function ids_of(record)
  local ids, seen = {}, {}
  for _, head in ipairs(record.heads or {}) do table.insert(seen, head) end
  while #seen > 0 and #ids < AT_ONCE do
    local id = table.remove(seen, 1)
    local operation = read_record(REQUESTS, '#' .. id)
    table.insert(ids, id)
    if operation and operation.prev then table.insert(seen, 1, operation.prev) end
  end
  return ids
end

-- For end_where: whose time was over before a call could be made.
local function expired(_, _, till) return till ~= nil and till <= now_ms end

local EXPIRED = { state = 'CANCELLED', output = '{"reason":"expired"}' }
