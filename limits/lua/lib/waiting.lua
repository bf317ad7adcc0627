--[[
waiting: the two lists of numbers that wait for a turn, oldest first, and the records behind them.

A number waits in one place only: listed (one of two lists), later (a retry that is not due), or
behind a running call of its own, which may answer it. `waits` tells whether anybody wants a turn.

An entry's position is counted from the first entry that its list had; nothing that happens to others
changes it. A record keeps the position of its number, so no list is searched. A number that leaves
before its turn leaves a gap, an empty entry, that a taker passes over. A number pushed by hand, at
the end, has no record and changes no position.

wait_order:<line> holds of each list the position of its first entry and how many gaps it has, as long
as somebody waits in one of them. Should people have taken entries out by hand, a number that leaves is
searched for where it would stand, and then from the head on.
]]
local function list_of(record)
  return record.auto and AUTOMATIC or MANUAL
end

local nobody_waits, pass_gaps, push_last, push_first, pop_first, stands, take_out, take_riders, correct_first
local numbers_before, turns_before, operations_waiting, too_late
do
  local NEAR = 32
  -- Entries in which a number is searched for that is not where it should be: a millisecond.
  local SEARCHED = 40000
  -- Gaps that one script passes over: less than a millisecond.
  local PASSED_AT_ONCE, PASSED_TOGETHER = 5000, 1000

  -- The same question as `waits`, about those too who wait for the end of a backoff.
  function nobody_waits()
    return entries(MANUAL) == 0 and entries(AUTOMATIC) == 0 and later() == 0
  end

  -- All that a line has: in its lists, in wait_later, in flight.
  local function holds()
    return waits() + later() + members(LEASES)
  end

  -- A list of gaps only goes. Without them at both its ends somebody took gaps out by hand.
  local function drop_gaps(list)
    local all, gaps = entries(list), order(list).gaps
    if all == 0 or gaps < all then return end
    if call('LINDEX', list, 0) == '' and call('LINDEX', list, -1) == '' then
      call('DEL', list)
      all = 0
    end
    set_order(list, all, order(list).first, 0)
  end

  -- Who comes and leaves again stands last: that must not lengthen a list that does not move.
  local function drop_last_gaps(list)
    local all = entries(list)
    for _ = 1, PASSED_TOGETHER do
      if budget.left <= 0 or call('LINDEX', list, -1) ~= '' then return end
      budget.left = budget.left - 0.2
      call('RPOP', list)
      all = all - 1
      set_order(list, all, order(list).first, order(list).gaps - 1)
    end
  end

  -- Takes gaps off the head.
  function pass_gaps(list)
    local all, passed, together = entries(list), 0, 1
    while order(list).gaps > 0 and passed < PASSED_AT_ONCE and (passed == 0 or budget.left > 0) do
      local heads, gaps = call('LRANGE', list, 0, together - 1), 0
      while heads[gaps + 1] == '' do gaps = gaps + 1 end
      if gaps > 0 then
        budget.left = budget.left - gaps / 25
        call('LTRIM', list, gaps, -1)
        all = all - gaps
        set_order(list, all, order(list).first + gaps, order(list).gaps - gaps)
      end
      if gaps < together then return end
      passed, together = passed + gaps, math.min(PASSED_TOGETHER, 8 * together)
    end
  end

  -- Returns the position of the number. What is to be known is read first: should it not be what it must
  -- be, the number is in no list yet, and comes into none twice.
  function push_last(list, number)
    local first, gaps = order(list).first, order(list).gaps
    local all = call('RPUSH', list, number)
    set_order(list, all, first, all > 1 and gaps or 0)
    return first + all - 1
  end

  function push_first(list, number)
    local first, gaps = order(list).first, order(list).gaps
    local all = call('LPUSH', list, number)
    set_order(list, all, first - 1, all > 1 and gaps or 0)
    return first - 1
  end

  -- The first number of a list that somebody stands in; '' when more gaps are to be passed over.
  function pop_first(list)
    pass_gaps(list)
    local all, number = entries(list), call('LPOP', list)
    if not number then return '' end
    local gaps = order(list).gaps - (number == '' and 1 or 0)
    set_order(list, all - 1, order(list).first + 1, gaps)
    drop_gaps(list)
    return number
  end

  -- How many numbers stand before this entry; the gaps are taken to be spread evenly.
  function numbers_before(list, index)
    local all, gaps = entries(list), order(list).gaps
    index = math.min(math.max(0, index), all)
    if index == 0 then return 0 end
    return math.max(index - gaps, math.floor(index * numbers(list) / all + 0.5))
  end

  -- How many have their turn before a number that has `ahead` others before it in its own list, as
  -- `next_number` gives turns.
  function turns_before(list, ahead)
    local others = numbers(list == MANUAL and AUTOMATIC or MANUAL)
    if others == 0 then return ahead end
    local turn = tonumber(call('HGET', ORDER, 'turn') or 0) % 4
    local theirs = list == MANUAL and math.floor((ahead + turn) / 3) or 3 - turn + 3 * ahead
    return ahead + math.min(others, theirs)
  end

  -- At least so many operations wait, or run and may wait again, before a request: before a MANUAL one only
  -- MANUAL ones count, before an AUTOMATIC one all, so that it takes no room but what the others leave. So
  -- that a line that stands still is not filled with gaps, they count from max_waiting on.
  function operations_waiting(request)
    -- Of what is no operation somebody else has the rest: so that a line is a window of so many, all are counted.
    if not rules.operations then return holds() end
    local open, automatic = open_operations()
    if request.auto then
      local gaps_too = entries(MANUAL) + entries(AUTOMATIC) - rules.max_waiting
      return math.max(waits(), open, gaps_too)
    end
    return math.max(numbers(MANUAL), open - automatic, entries(MANUAL) - rules.max_waiting)
  end

  -- µs at which a new request could be called at the earliest, where nobody wants it any more by then; nil
  -- where it can be in time. A pause may be ended, and calls may be quick, so neither counts.
  function too_late(request, idle)
    if not request.till then return nil end
    local list = request.auto and AUTOMATIC or MANUAL
    local turns = idle and 0 or turns_before(list, numbers(list))
    local starts = math.max(starts_at(turns, now), quota_ends(request.number) or 0)
    return starts - rules.ahead_us > request.till * 1000 and starts or nil
  end

  -- Whether the number stands at this position; its index if so. `nearby`: or close to it, as it does
  -- once a few were taken out by hand.
  function stands(list, number, position, nearby)
    local first = order(list).first
    local index = position and position - first or -1
    if index >= 0 and call('LINDEX', list, index) == number then return index end
    local from = math.max(0, index - NEAR)
    for i, entry in ipairs(nearby and call('LRANGE', list, from, from + 2 * NEAR) or {}) do
      if entry == number then return from + i - 1 end
    end
  end

  -- People may have cut off by hand what stood at the head of a list, so that all others have moved up: the position
  -- of its first entry is what most of those at its head say, unless the first of these says what is known.
  function correct_first(list)
    local known_first, told, most = order(list).first, {}, nil
    local listed = call('LRANGE', list, 0, NEAR - 1)
    local records = listed[1] and call('HMGET', REQUESTS, unpack(listed)) or {}
    for i, text in ipairs(records) do
      budget.left = budget.left - 0.3
      local record = text and decoded(text)
      local first = record and record.position and list_of(record) == list and record.position - i + 1
      if first and not most and first == known_first then return end
      if first then
        told[first] = (told[first] or 0) + 1
        most = most and told[first] <= told[most] and most or first
      end
    end
    if most then set_order(list, entries(list), most, order(list).gaps) end
  end

  local function index_of(list, number, position)
    local index = stands(list, number, position, true)
    if index then return index end
    budget.left = budget.left - math.min(entries(list), SEARCHED) / 400
    index = call('LPOS', list, number, 'MAXLEN', SEARCHED)
    if index and position then set_order(list, entries(list), position - index, order(list).gaps) end
    return index
  end

  -- Takes a number out of its list before its turn, if it is there.
  function take_out(list, number, position)
    local index = index_of(list, number, position)
    if not index then return end
    call('LSET', list, index, '')
    set_order(list, entries(list), order(list).first, order(list).gaps + 1)
    drop_gaps(list)
    if index == 0 then
      pass_gaps(list)
    elseif index == entries(list) - 1 then
      drop_last_gaps(list)
    end
  end

  -- Takes the entries at these indexes, in their order, out of a list: nobody else moves.
  function take_riders(list, indexes)
    local first, left = 0, entries(list)
    while indexes[first + 1] == first do first = first + 1 end
    if first > 0 then
      call('LTRIM', list, first, -1)
      left = left - first
      set_order(list, left, order(list).first + first, left > 0 and order(list).gaps or 0)
    end
    for i = first + 1, #indexes do call('LSET', list, indexes[i] - first, '') end
    if left == 0 then return end
    set_order(list, left, order(list).first, order(list).gaps + #indexes - first)
    drop_gaps(list)
    if #indexes > first and indexes[#indexes] - first == left - 1 then drop_last_gaps(list) end
  end
end

-- Whether the number of a record waits where that says. A few before it may have been taken out by hand.
local function has_place(number, record)
  if record.state == 'later' then return call('ZSCORE', LATER, number) end
  return stands(list_of(record), number, record.position, true)
end

local function put_tail(number, record)
  if record.state then record.state = nil end
  record.position = push_last(list_of(record), number)
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

local put_head, put_later, due_of_quota, put_for_quota
do
  -- The record with whatever was parked for its number in the meantime.
  local function with_parked(number, record)
    local parked = read_record(REQUESTS, number)
    local flown = record.n and record.listed and rest_of(number, record)
    record.n, record.at, record.granted, record.job, record.dying, record.lead = nil, nil, nil, nil, nil, nil
    record.quota = nil
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
    record.state, record.position = 'later', nil
    write_record(REQUESTS, number, record)
    change_later('ZADD', LATER, due_ms, number)
    mark_busy()
  end

  local WEEK_MS, SPREAD_MS = 604800000, 10000

  -- ms between which those are due who wait for the end of a quota.
  function due_of_quota(ends)
    return ends / 1000, ends / 1000 + SPREAD_MS
  end

  -- Its account's quota is used up until `ends`, µs. Who has waited for longer is due earlier then.
  function put_for_quota(number, record, ends)
    local first = due_of_quota(ends)
    local came = math.max(0, record.since - first + WEEK_MS) / WEEK_MS
    put_later(number, record, first + math.floor(came * SPREAD_MS))
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
    number = plain(number)
    local anon = { id = 'hand-' .. digits(now) }
    if found and not status(anonymous_id(number, anon.id)) then
      end_anonymous(number, { since = now_ms, anon = anon }, verdict)
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

  -- The next number, and its list: `only` that one, else the MANUAL one, but every fourth time the AUTOMATIC one
  -- while both wait; '' when more gaps are to be passed over.
  function next_number(only)
    if waits() == 0 then return nil end
    if only then return next_of(only), only end
    local list = numbers(MANUAL) > 0 and MANUAL or AUTOMATIC
    local both = numbers(MANUAL) > 0 and numbers(AUTOMATIC) > 0
    if both and call('HINCRBY', ORDER, 'turn', 1) % 4 == 0 then list = AUTOMATIC end
    return next_of(list), list
  end
end
