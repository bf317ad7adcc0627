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
  return call('LLEN', MANUAL) + call('LLEN', AUTOMATIC)
end

-- The same question, about those too who wait for the end of a backoff; one look is enough.
local function nobody_waits()
  return call('EXISTS', MANUAL, AUTOMATIC, LATER) == 0
end

local function put_tail(number, record)
  record.state = nil
  write_record(REQUESTS, number, record)
  call('RPUSH', list_of(record), number)
  call('SADD', SLUGS, rules.slug)
end

local function put_behind(number, record)
  record.state = 'behind'
  write_record(REQUESTS, number, record)
  call('SADD', SLUGS, rules.slug)
end

-- The record with whatever was parked for its number in the meantime.
local function with_parked(number, record)
  local parked = read_record(REQUESTS, number)
  record.n, record.at, record.granted, record.job, record.dying = nil, nil, nil, nil, nil
  if not parked then return record end
  if parked.state == 'later' then
    call('ZREM', LATER, number)
  elseif not parked.state then
    call('LREM', list_of(parked), 1, number)
  end
  return merged(record, parked)
end

local function put_head(number, record)
  record = with_parked(number, record)
  record.state = nil
  write_record(REQUESTS, number, record)
  call('LPUSH', list_of(record), number)
  call('SADD', SLUGS, rules.slug)
end

local function put_later(number, record, due_ms)
  record = with_parked(number, record)
  record.state = 'later'
  write_record(REQUESTS, number, record)
  call('ZADD', LATER, due_ms, number)
  call('SADD', SLUGS, rules.slug)
end

-- Retries whose time has come go to the tail of their list.
local function move_due()
  for _, number in ipairs(call('ZRANGEBYSCORE', LATER, '-inf', now_ms, 'LIMIT', 0, DUE_AT_ONCE)) do
    call('ZREM', LATER, number)
    put_tail(number, read_record(REQUESTS, number) or { since = now_ms })
  end
end

-- Takes a number that waits off its place, wherever that is.
local function unlist(number, record)
  if record.state == 'later' then
    call('ZREM', LATER, number)
  elseif not record.state then
    call('LREM', list_of(record), 1, number)
  end
end

-- An AUTOMATIC request that is wanted by a MANUAL one too goes to the end of the MANUAL list.
local function promote(number, record, request)
  if not record.auto or request.auto then return end
  if not record.state then
    call('LREM', AUTOMATIC, 1, number)
    call('RPUSH', MANUAL, number)
  end
  record.auto = nil
end

-- The next number: of the MANUAL list, but every fourth time of the AUTOMATIC one while both wait.
local function pop()
  local manual, automatic = call('LLEN', MANUAL), call('LLEN', AUTOMATIC)
  if manual == 0 and automatic == 0 then return nil end
  local list = manual > 0 and MANUAL or AUTOMATIC
  if manual > 0 and automatic > 0 and call('HINCRBY', REQUESTS, '!turn', 1) % 4 == 0 then
    list = AUTOMATIC
  end
  -- Pushed by hand it may be anything. A courier refuses dots; other bytes could break a reply.
  local number = string.gsub(call('LPOP', list), '[^%w ._/-]', '.')
  return number ~= '' and number or '.'
end
