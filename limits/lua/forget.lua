--[[
forget: what waits for a number ends as CANCELLED, and so do the operations of its running call, whose
answer is discarded. The remembered answer goes. What is asked from now on is a new request.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  number
  keep_ms  how long calls that were granted before are recognised
  places   as in cancel.lua

Uses     context: digits
         memory: ended_as
         state: delete_history, parcel_of
         record: end_where, everyone, read_record, write_record
         waiting: end_waiting
         flight: running
         taking: at_rest

Returns  {now, ended, more, call, answers}
         ended    operations that ended now
         more     1: more than 100 operations end; send it again, nothing else was done yet
         call     id of the call that runs for the number, or empty
         answers  1: an answer was remembered
]]
local WITH_PARCEL = { state = 'CANCELLED', output = '{"code":"forgotten","message":"its parcel was forgotten"}' }

-- Of the call's record stays what its slot and its end need; the fields of its requests go.
local function end_running(id, record)
  local before = ended_as('CANCELLED')
  local looked = end_where(record.n, record, WITH_PARCEL, everyone)
  if looked then
    record = {
      n = record.n, since = record.since, at = record.at, granted = record.granted,
      job = record.job, lead = record.lead, forgotten = true,
    }
  end
  write_record(INFLIGHT, id, record)
  return ended_as('CANCELLED') - before, looked
end

return function(number, keep_ms, places)
  local ended, looked = end_waiting(number, WITH_PARCEL, cjson.decode(places))
  at_rest()
  if not looked then return { now, ended, 1, '', 0 } end
  local id = running(number)
  local record = id and read_record(INFLIGHT, id)
  if record then
    local more
    more, looked = end_running(id, record)
    ended = ended + more
    if not looked then return { now, ended, 1, '', 0 } end
  end
  delete_history(number)
  call('HDEL', UNREADABLE, REQUESTS .. ' ' .. number)
  if rules.counted then call('SET', FORGOTTEN .. redis.sha1hex(parcel_of(number)), digits(now), 'PX', keep_ms) end
  return { now, ended, 0, record and id or '', call('DEL', ANSWER .. number) }
end
