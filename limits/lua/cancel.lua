--[[
cancel: end what waits as CANCELLED. What runs at this moment is not touched.

KEYS     of the slug, see lib/slug.lua
ARGV[1]  rules     see lib/slug.lua
ARGV[2]  reports   see lib/slug.lua
ARGV[3]  number    whose operations end, or empty when ARGV[4] is given
ARGV[4]  id        of one operation, or empty for all that wait for the number

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

local function cancel_one(id)
  local operation = read_record(REQUESTS, '#' .. id)
  local state = state_of(id)
  if state == 'RUNNING' or not end_operation(id, BY_HAND, STATUS_KEEP_MS) then return 0 end
  local record = operation and read_record(REQUESTS, operation.n)
  if record then
    record.ids = (record.ids or 1) - 1
    write_record(REQUESTS, operation.n, record)
    if record.ids <= 0 and not record.anon then
      end_where(record, BY_HAND, everyone)
      drop(operation.n, record)
    end
  end
  return 1
end

local function cancel_number(number)
  local record = read_record(REQUESTS, number)
  if not record then return 0, 0 end
  local before = tonumber(call('HGET', COUNTS, 'CANCELLED') or 0)
  local looked = end_where(record, BY_HAND, everyone)
  local cancelled = tonumber(call('HGET', COUNTS, 'CANCELLED') or 0) - before
  if looked then drop(number, record) else write_record(REQUESTS, number, record) end
  return cancelled, looked and 0 or 1
end

local cancelled, more = 0, 0
if ARGV[4] ~= '' then
  cancelled = cancel_one(ARGV[4])
else
  cancelled, more = cancel_number(ARGV[3])
end
project()
at_rest()
return { now, cancelled, more }
