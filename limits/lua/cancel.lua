--[[
cancel: end what waits as CANCELLED. What runs at this moment is not touched.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  number   whose operations end; empty: of all numbers, those that are first in line
  id       of one operation that waits for the number, or empty for all that do
  places   JSON: [positions in the MANUAL list, in the AUTOMATIC list] of a number that was pushed by
           hand (lib/waiting.lua)

Uses     memory: ended_as, order
         state: anonymous_id, elsewhere, move, operation_in, status
         record: end_anonymous, end_where, nobody_left, read_record, rest_of, write_record
         waiting: drop, end_waiting, pass_gaps, pop_first
         flight: running
         taking: at_rest

Returns  {now, "cancelled", ended, more}  operations that ended now; more 1: more than 100 end, so
                                          send it again
         {now, "line", told, more}        of all numbers: [number, ended, …]; more 1: somebody waits
                                          still, so send it again
for an id that is left alone:
         {now, "elsewhere", parcel}       it is that of a request for this other parcel
         {now, "running"}                 its call runs
         {now, "ended", state}            it ended before
         {now, "unknown"}                 nothing waits or runs under it
]]
local NUMBERS_AT_ONCE = 20
local SEARCHED = 40000 -- ids of a list that is searched: a millisecond

-- Of more than 100 operations of a call only the newest say RUNNING, and of those that are given up none.
-- What waits behind a call is not its own, however old it is.
local function runs(id, operation, number)
  if operation.status == 'RUNNING' then return true end
  local call_id = running(number)
  local flying = call_id and read_record(INFLIGHT, call_id) or {}
  for _, each in ipairs(flying.newest or {}) do
    if each == id then return true end
  end
  if not flying.listed then return false end
  if call('LPOS', rest_of(number, flying), id, 'MAXLEN', SEARCHED) then return true end
  if flying.listed <= SEARCHED then return false end
  -- Hundreds of thousands are not searched: who came before the grant is the call's.
  return operation.at <= tonumber(flying.granted) / 1000
end

-- Requests without an id, by the one that they can be asked for: while they wait only their record knows it.
local function cancel_anonymous(number, id)
  local record = read_record(REQUESTS, number)
  local anon = record and record.anon
  if not anon or anonymous_id(number, anon.id) ~= id then return { now, 'unknown' } end
  end_anonymous(number, record, BY_HAND)
  record.anon = nil
  if nobody_left(record) then drop(number, record) else write_record(REQUESTS, number, record) end
  at_rest()
  return { now, 'cancelled', 1, 0 }
end

local function cancel_one(number, id)
  local operation = operation_in(status(id))
  if not operation then return cancel_anonymous(number, id) end
  local other = elsewhere(id, operation, number)
  if other then return { now, 'elsewhere', other } end
  if ENDED[operation.status] then return { now, 'ended', operation.status } end
  if runs(id, operation, number) then return { now, 'running' } end
  if not move(id, operation, 'CANCELLED', BY_HAND) then return { now, 'unknown' } end
  local record = read_record(REQUESTS, number)
  if record then
    record.ids = (record.ids or 1) - 1
    local deserted = record.ids <= 0 and not record.anon
    -- It counts them again: where somebody had deleted the record of this one, others may be on it.
    if deserted then end_where(number, record, BY_HAND, function() return false end) end
    if nobody_left(record) then
      drop(number, record)
    else
      -- Of many the rest goes when its turn comes, without a call.
      write_record(REQUESTS, number, record)
    end
  end
  at_rest()
  return { now, 'cancelled', 1, 0 }
end

-- The number that is first in line, with its places; nil when there is none, or more gaps are to be
-- passed over.
local function first_in_line()
  for i, list in ipairs({ MANUAL, AUTOMATIC }) do
    pass_gaps(list)
    local number = call('LINDEX', list, 0)
    if number == '' then pop_first(list) end
    if number then return number ~= '' and number or nil, { [i] = { order(list).first } } end
  end
  return call('ZRANGE', LATER, 0, 0)[1], {}
end

-- Those that are first: at most NUMBERS_AT_ONCE, and no more after one with many operations.
local function cancel_first()
  local told, looked, before = {}, true, ended_as('CANCELLED')
  while looked and #told < 2 * NUMBERS_AT_ONCE and ended_as('CANCELLED') - before < NUMBERS_AT_ONCE do
    local number, places = first_in_line()
    if not number then break end
    local ended
    ended, looked = end_waiting(number, BY_HAND, places)
    table.insert(told, (string.gsub(number, '[^%w ._/@-]', '.')))
    table.insert(told, ended)
  end
  return { now, 'line', told, at_rest() and 0 or 1 }
end

return function(number, id, places)
  if number == '' then return cancel_first() end
  if id ~= '' then return cancel_one(number, id) end
  local cancelled, looked = end_waiting(number, BY_HAND, cjson.decode(places))
  at_rest()
  return { now, 'cancelled', cancelled, looked and 0 or 1 }
end
