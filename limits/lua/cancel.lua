--[[
cancel: end what waits as CANCELLED. What runs at this moment is not touched.

KEYS     of the slug, see lib/slug.lua
ARGV     behind the reports, see lib/batch.lua:
  number   whose operations end, or empty when the id is given
  id       of one operation, or empty for all that wait for the number

Returns  {now, cancelled, more}
         cancelled  operations that ended now; an id nobody has seen yet counts, and its job will be
                    deleted when it comes
         more       1: more than 100 operations end; send it again
]]
local BY_HAND = { state = 'CANCELLED', output = '{"reason":"cancelled"}' }

local function drop(number, record)
  unlist(number, record)
  call('HDEL', REQUESTS, number)
end

-- Of more than 100 operations of a call only the newest say RUNNING; all came before its grant.
local function runs(id, operation)
  local call_id = operation and running(operation.n)
  local flying = call_id and read_record(INFLIGHT, call_id)
  return state_of(id) == 'RUNNING' or flying and operation.at * 1000 <= tonumber(flying.granted)
end

local function cancel_one(id)
  local operation = read_record(REQUESTS, '#' .. id)
  if runs(id, operation) or not end_operation(id, BY_HAND) then return 0 end
  local record = operation and read_record(REQUESTS, operation.n)
  if not record then return 1 end
  record.ids = (record.ids or 1) - 1
  local deserted = record.ids <= 0 and not record.anon
  if deserted and end_where(record, BY_HAND, everyone) then
    drop(operation.n, record)
  else
    -- Of a long chain the rest goes when its turn comes, without a call.
    write_record(REQUESTS, operation.n, record)
  end
  return 1
end

-- Without a record it was pushed by hand.
local function cancel_pushed(number)
  local gone = change_line('LREM', MANUAL, 0, number) + change_line('LREM', AUTOMATIC, 0, number)
  if gone == 0 then return 0 end
  end_anonymous('hand-' .. digits(now) .. number, BY_HAND)
  return 1
end

local function cancel_number(number)
  local record = read_record(REQUESTS, number)
  if not record then return cancel_pushed(number), 0 end
  local before = touched.counts.CANCELLED or 0
  local looked = end_where(record, BY_HAND, everyone)
  local cancelled = (touched.counts.CANCELLED or 0) - before
  if looked then drop(number, record) else write_record(REQUESTS, number, record) end
  return cancelled, looked and 0 or 1
end

return function(number, id)
  local cancelled, more = 0, 0
  if id ~= '' then
    cancelled = cancel_one(id)
  else
    cancelled, more = cancel_number(number)
  end
  at_rest()
  return { now, cancelled, more }
end
