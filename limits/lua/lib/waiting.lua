--[[
waiting: the lists of numbers and the records behind them.

A number waits in one place only: listed (one of two lists), later (a retry that is not due), or
behind a running call of its own, which may answer it. `waits` tells whether anybody wants a turn.
]]
local DUE_AT_ONCE = 1000

local function list_of(record)
  return record.auto and AUTOMATIC or MANUAL
end

local function waits()
  return manual() + automatic()
end

-- At least so many operations wait, or run and may wait again.
local function operations_waiting()
  return math.max(waits(), open_operations())
end

-- The same question as `waits`, about those too who wait for the end of a backoff.
local function nobody_waits()
  return manual() == 0 and automatic() == 0 and later() == 0
end

local function put_tail(number, record)
  record.state = nil
  write_record(REQUESTS, number, record)
  change_list('RPUSH', list_of(record), number)
  call('SADD', LINES, line)
end

local function put_behind(number, record)
  record.state = 'behind'
  write_record(REQUESTS, number, record)
  call('SADD', LINES, line)
end

-- The record with whatever was parked for its number in the meantime.
local function with_parked(number, record)
  local parked = read_record(REQUESTS, number)
  local flown = record.listed and rest_of(number, record)
  record.n, record.at, record.granted, record.job, record.dying = nil, nil, nil, nil, nil
  if flown then move_rest(flown, rest_of(number, record)) end
  if not parked then return record end
  if parked.state == 'later' then
    change_list('ZREM', LATER, number)
  elseif not parked.state then
    change_list('LREM', list_of(parked), 1, number)
  end
  return merged(number, record, parked)
end

local function put_head(number, record)
  record = with_parked(number, record)
  record.state = nil
  write_record(REQUESTS, number, record)
  change_list('LPUSH', list_of(record), number)
  call('SADD', LINES, line)
end

local function put_later(number, record, due_ms)
  record = with_parked(number, record)
  record.state = 'later'
  write_record(REQUESTS, number, record)
  change_list('ZADD', LATER, due_ms, number)
  call('SADD', LINES, line)
end

-- Retries whose time has come go to the tail of their list.
local function move_due()
  if later() == 0 then return end
  for _, number in ipairs(call('ZRANGEBYSCORE', LATER, '-inf', now_ms, 'LIMIT', 0, DUE_AT_ONCE)) do
    change_list('ZREM', LATER, number)
    put_tail(number, read_record(REQUESTS, number) or { since = now_ms })
  end
end

-- Takes a number that waits off its place, wherever that is.
local function unlist(number, record)
  if record.state == 'later' then
    change_list('ZREM', LATER, number)
  elseif not record.state then
    change_list('LREM', list_of(record), 1, number)
  end
end

local function drop(number, record)
  unlist(number, record)
  call('HDEL', REQUESTS, number)
end

-- Without a record it was pushed by hand: however often, that is one request.
local function end_pushed(number, verdict)
  local gone = change_list('LREM', MANUAL, 0, number) + change_list('LREM', AUTOMATIC, 0, number)
  if gone > 0 then end_anonymous(number, { id = 'hand-' .. digits(now), at = now_ms }, verdict) end
end

-- Ends everybody who waits for a number. Returns how many ended now, and whether all were looked at;
-- else call again.
local function end_waiting(number, verdict)
  local before, looked = counted(verdict.state), true
  local record = read_record(REQUESTS, number)
  if not record then
    end_pushed(number, verdict)
  else
    looked = end_where(number, record, verdict, everyone)
    if looked then drop(number, record) else write_record(REQUESTS, number, record) end
  end
  return counted(verdict.state) - before, looked
end

-- An AUTOMATIC request that is wanted by a MANUAL one too goes to the end of the MANUAL list.
local function promote(number, record, request)
  if not record.auto or request.auto then return end
  if not record.state then
    change_list('LREM', AUTOMATIC, 1, number)
    change_list('RPUSH', MANUAL, number)
  end
  record.auto = nil
end

-- The next number: of the MANUAL list, but every fourth time of the AUTOMATIC one while both wait.
local function next_number()
  if waits() == 0 then return nil end
  local list = manual() > 0 and 'manual' or 'automatic'
  local both = manual() > 0 and automatic() > 0
  if both and call('HINCRBY', REQUESTS, '!turn', 1) % 4 == 0 then list = 'automatic' end
  -- Pushed by hand it may be anything. A courier refuses dots; other bytes could break a reply.
  local number = string.gsub(pop_first(list), '[^%w ._/-]', '.')
  return number ~= '' and number or '.'
end
