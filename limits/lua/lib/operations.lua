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

local iso
do
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
  function iso(ms)
    if not ms then return 'null' end
    if instants[ms] then return instants[ms] end
    local seconds = math.floor(ms / 1000)
    local days = math.floor(seconds / 86400)
    local rest = seconds - days * 86400
    instants[ms] = string.format('"%sT%02d:%02d:%02d.%03dZ"', date_of(days),
      math.floor(rest / 3600), math.floor(rest / 60) % 60, rest % 60, ms % 1000)
    return instants[ms]
  end
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

local function everyone() return true end

-- Whether an operation stays: else it ended, now or before.
local function stays(id, verdict, ends)
  local operation = read_record(REQUESTS, '#' .. id)
  if not operation then return false end
  if ENDED[state_of(id)] or ends(operation.at, operation.age, operation.till) then
    end_operation(id, verdict)
    call('HDEL', REQUESTS, '#' .. id)
    return false
  end
  return true
end

-- Ends operations that `ends(at, age, till)` names, after a look at AT_ONCE at most; the others stay on
-- the record, but for those that ended otherwise (cancelled).
-- Returns true when every operation was looked at; else call again with the same record.
local function end_where(number, record, verdict, ends)
  local rest, listed = rest_of(number, record), record.listed or 0
  local todo = ends ~= everyone and record.todo or listed
  local function left_of(ids)
    local left = {}
    for _, id in ipairs(ids) do
      if stays(id, verdict, ends) then table.insert(left, id) end
    end
    return left
  end
  local inline = record.newest or {}
  record.newest = left_of(inline)
  local most = AT_ONCE - #inline
  while todo > 0 and most > 0 do
    local ids = call('LPOP', rest, math.min(todo, most)) or {}
    if #ids == 0 then listed, todo = 0, 0 end -- somebody has deleted the list
    listed, todo, most = listed - #ids, todo - #ids, most - #ids
    local left = left_of(ids)
    if #left > 0 then call('RPUSH', rest, unpack(left)) end
    listed = listed + #left
  end
  if #record.newest == 0 then record.newest = nil end
  record.listed = listed > 0 and listed or nil
  record.todo = ends ~= everyone and todo > 0 and todo or nil
  if todo > 0 then return false end
  record.ids = #(record.newest or {}) + listed
  if record.ids == 0 then record.ids = nil end
  local anon = record.anon
  if anon and ends(anon.at, anon.age, anon.till) then
    end_anonymous(anon.id, verdict)
    record.anon = nil
  end
  return true
end

local function nobody_left(record)
  return not record.anon and not record.newest and not record.listed
end

-- The ids of at most AT_ONCE operations, newest first.
local function ids_of(number, record)
  local ids = { unpack(record.newest or {}) }
  if not record.listed then return ids end
  for _, id in ipairs(call('LRANGE', rest_of(number, record), 0, AT_ONCE - #ids - 1)) do
    table.insert(ids, id)
  end
  return ids
end

-- For end_where: whose time was over before a call could be made.
local function expired(_, _, till) return till ~= nil and till <= now_ms end

local EXPIRED = { state = 'CANCELLED', output = '{"reason":"expired"}' }
