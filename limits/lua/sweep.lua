--[[
sweep: put right what vanished workers left behind, for one line.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  who      new for every sweep; empty: this worker could not drain the line, so it calls no drainer

Uses     memory: clamp, count, drop_ended, nothing_is_open
         lists: list_of, nobody_waits, stands, waits
         record: write_record
         operations: wait_again
         waiting: move_due, put_head, put_tail
         flight: go_on_without, granted_before, land, running
         draining: at_rest, call_drainer, raise_flag

Returns  {now, swept, dying, put, more}
         swept     calls whose lease ended without a word, now back at the head of their list
         dying     grants of calls over which too many workers vanished: record, then finish them
         put       1: somebody waits and nobody drains, so put a drain job
         more      1: send another sweep now, more numbers may have lost their place in the lists
]]
local LOOK_AT_FIELDS = 100

local function lost_calls()
  local lost, calls = {}, call('HGETALL', INFLIGHT)
  for i = 1, #calls, 2 do
    local id, text = calls[i], calls[i + 1]
    if string.sub(id, 1, 1) == '=' then
      if call('HEXISTS', INFLIGHT, text) == 0 then call('HDEL', INFLIGHT, id) end
    elseif not call('ZSCORE', LEASES, id) then
      table.insert(lost, { id = id, record = cjson.decode(text) })
    end
  end
  -- Newest first: each goes to the head, so the oldest ends up first in line.
  table.sort(lost, function(a, b) return tonumber(a.record.granted) > tonumber(b.record.granted) end)
  return lost
end

local function is_placed(number, record)
  if record.state == 'later' then return call('ZSCORE', LATER, number) end
  return running(number) or stands(list_of(record), number, record.position)
end

-- Records whose number is in no list (somebody deleted the list): back in line, a hundred at once.
-- The field !relist tells where to go on. Returns whether to go on now.
local function relist()
  local from = call('HGET', REQUESTS, '!relist')
  if not (from or nobody_waits()) then return false end
  local relisted, reply = false, call('HSCAN', REQUESTS, from or 0, 'COUNT', LOOK_AT_FIELDS)
  local ahead, fields = reply[1], reply[2]
  for i = 1, #fields, 2 do
    local number = fields[i]
    local record = number ~= '!relist' and cjson.decode(fields[i + 1])
    if record and not is_placed(number, record) then
      put_tail(number, record)
      count('relisted')
      relisted = true
    end
  end
  if ahead ~= '0' then
    call('HSET', REQUESTS, '!relist', ahead)
  elseif from then
    call('HDEL', REQUESTS, '!relist')
  end
  return relisted and ahead ~= '0'
end

return function(who)
  -- A clock that stepped back must not keep a dead worker's slot for the length of its step.
  clamp(LEASES, now + rules.lease_us)
  clamp(STARTS, now + rules.ahead_us + rules.late_us + rules.window_us)
  drop_ended(LEASES)
  drop_ended(STARTS)
  local swept, dying = 0, {}
  if call('HLEN', INFLIGHT) > 0 then
    for _, lost in ipairs(lost_calls()) do
      local id, record = lost.id, lost.record
      if not record.dying then record.deaths = (record.deaths or 0) + 1 end
      record.dying = record.dying or record.deaths > rules.deaths or nil
      if record.forgotten then
        land(id, record)
        go_on_without(record.n)
      elseif record.dying then
        write_record(INFLIGHT, id, record)
        table.insert(dying, granted_before(id))
      else
        local number = record.n
        land(id, record)
        wait_again(record)
        put_head(number, record)
        count('swept')
        swept = swept + 1
      end
    end
  end
  local more = relist() and 1 or 0
  move_due()
  local put, left = 0, waits()
  if left > 0 then
    if who ~= '' then
      raise_flag(left)
      put = call_drainer(who)
    end
  elseif at_rest() and call('EXISTS', INFLIGHT, REQUESTS) == 0 then
    nothing_is_open()
    call('SREM', LINES, line)
  end
  return { now, swept, dying, put, more }
end
