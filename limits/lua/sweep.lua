--[[
sweep: put right what vanished workers left behind, for one line.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  who      new for every sweep; empty: this worker could not drain the line, so it calls no drainer

Uses     memory: clamp, count, drop_ended, entries, later, nothing_is_open, order
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
-- Entries of a list that is read whole, and of one that is searched, once in a script: 1 and 2 ms.
local SHORT, LONG = 5000, 100000

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

-- Whether more wait than are in the lists: a person took some out. Those behind a running call are in
-- none.
local function somebody_is_lost()
  local missing = call('HLEN', REQUESTS) - waits() - later()
  if missing <= 0 then return false end
  for _, field in ipairs(call('HKEYS', INFLIGHT)) do
    if string.sub(field, 1, 1) == '=' then
      missing = missing - call('HEXISTS', REQUESTS, string.sub(field, 2))
    end
  end
  return missing > 0
end

-- Where a number stands that is not at its position; false: nowhere; nil: another script is to search.
local index_of
do
  local whole, searched = {}, false
  function index_of(list, number, position)
    if entries(list) <= SHORT then
      if not whole[list] then
        whole[list] = {}
        for i, entry in ipairs(call('LRANGE', list, 0, -1)) do whole[list][entry] = i - 1 end
      end
      return whole[list][number] or false
    end
    local index = stands(list, number, position, true)
    if index then return index end
    if searched or entries(list) > LONG then return nil end
    searched = true
    return call('LPOS', list, number)
  end
end

-- Numbers that a person took out of a list while others wait in it: back in line. A hundred records are
-- looked at; the field `lost` of wait_order tells where to go on. Returns whether to go on now.
local function find_lost()
  if nobody_waits() or not somebody_is_lost() then return false end
  local from, found, seen = call('HGET', ORDER, 'lost') or '0', false, { ['!relist'] = true }
  local reply = call('HSCAN', REQUESTS, from, 'COUNT', LOOK_AT_FIELDS)
  local ahead, fields = reply[1], reply[2]
  for i = 1, #fields, 2 do
    local number, record = fields[i], cjson.decode(fields[i + 1])
    if not seen[number] and not is_placed(number, record) then
      seen[number] = true -- a scan may give it twice
      local list = list_of(record)
      local index = record.state ~= 'later' and index_of(list, number, record.position)
      if index == nil then
        ahead = from
      elseif index then
        record.position = order(list).first + index
        write_record(REQUESTS, number, record)
      else
        put_tail(number, record)
        count('relisted')
        found = true
      end
    end
  end
  call('HSET', ORDER, 'lost', ahead)
  return found and ahead ~= from and ahead ~= '0'
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
  local more = (relist() or find_lost()) and 1 or 0
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
