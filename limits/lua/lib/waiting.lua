--[[
waiting: the lists of numbers and the records behind them.

A number waits in one place only: listed (one of two lists), later (a retry that is not due), or
behind a running call of its own, which may answer it. `waits` tells whether anybody wants a turn.
]]
local function put_tail(number, record)
  record.state, record.position = nil, push_last(list_of(record), number)
  write_record(REQUESTS, number, record)
  mark_busy()
end

local function put_behind(number, record)
  record.state, record.position = 'behind', nil
  write_record(REQUESTS, number, record)
  expect_no_calm()
  mark_busy()
end

-- Takes a number that waits off its place, wherever that is.
local function unlist(number, record)
  if record.state == 'later' then
    change_later('ZREM', LATER, number)
  elseif not record.state then
    take_out(list_of(record), number, record.position)
  end
end

local put_head, put_later
do
  -- The record with whatever was parked for its number in the meantime.
  local function with_parked(number, record)
    local parked = read_record(REQUESTS, number)
    local flown = record.n and record.listed and rest_of(number, record)
    record.n, record.at, record.granted, record.job, record.dying, record.lead = nil, nil, nil, nil, nil, nil
    if flown then move_rest(flown, rest_of(number, record)) end
    if not parked then return record end
    unlist(number, parked)
    return merged(number, record, parked)
  end

  function put_head(number, record)
    record = with_parked(number, record)
    record.state, record.position = nil, push_first(list_of(record), number)
    write_record(REQUESTS, number, record)
    mark_busy()
  end

  function put_later(number, record, due_ms)
    record = with_parked(number, record)
    record.state = 'later'
    write_record(REQUESTS, number, record)
    change_later('ZADD', LATER, due_ms, number)
    mark_busy()
  end
end

-- Retries whose time has come go to the tail of their list.
local function move_due()
  if later() == 0 then return end
  local EACH = 1.6
  local most = math.max(1, math.floor(budget.left / EACH))
  for _, number in ipairs(call('ZRANGEBYSCORE', LATER, '-inf', now_ms, 'LIMIT', 0, most)) do
    budget.left = budget.left - EACH
    change_later('ZREM', LATER, number)
    put_tail(number, read_record(REQUESTS, number) or { since = now_ms })
  end
end

local function drop(number, record)
  unlist(number, record)
  call('HDEL', REQUESTS, number)
end

local end_waiting, next_number, next_of
do
  -- Pushed by hand a number may be anything. A courier refuses dots; other bytes could break what holds them.
  -- What waits for another account has a record, and what has none is main's.
  local function plain(number)
    local is_of_account = string.find(number, '^[%w ._/-]+@[a-z0-9]+$')
    if is_of_account and call('HEXISTS', REQUESTS, number) == 1 then return number end
    return (string.gsub(number, '[^%w ._/-]', '.'))
  end

  -- Without a record it was pushed by hand: however often, that is one request. `places`: its
  -- positions in the MANUAL list, and those in the AUTOMATIC one.
  local function end_pushed(number, verdict, places)
    local found = change_later('ZREM', LATER, number) > 0
    for i, list in ipairs({ MANUAL, AUTOMATIC }) do
      for _, position in ipairs(places[i] or {}) do
        if stands(list, number, position) then
          take_out(list, number, position)
          found = true
        end
      end
    end
    if found then
      end_anonymous(plain(number), { id = 'hand-' .. digits(now), at = now_ms }, verdict)
    end
  end

  -- Ends everybody who waits for a number; `places`: as for `end_pushed`. Returns how many ended now,
  -- and whether all were looked at; else call again.
  function end_waiting(number, verdict, places)
    local before, looked = ended_as(verdict.state), true
    -- Pushed by hand it may be anything, also the name of the field that holds no record.
    local record = number ~= '!relist' and read_record(REQUESTS, number)
    if not record then
      end_pushed(number, verdict, places)
    else
      looked = end_where(number, record, verdict, everyone)
      if looked then drop(number, record) else write_record(REQUESTS, number, record) end
    end
    return ended_as(verdict.state) - before, looked
  end

  -- The next number of a list, '' when more gaps are to be passed over.
  function next_of(list)
    return plain(pop_first(list))
  end

  -- The next number, and its list: the MANUAL one, but every fourth time the AUTOMATIC one while both wait; ''
  -- when more gaps are to be passed over.
  function next_number()
    if waits() == 0 then return nil end
    local list = numbers(MANUAL) > 0 and MANUAL or AUTOMATIC
    local both = numbers(MANUAL) > 0 and numbers(AUTOMATIC) > 0
    if both and call('HINCRBY', ORDER, 'turn', 1) % 4 == 0 then list = AUTOMATIC end
    return next_of(list), list
  end
end
