--[[
memory: what a script knows of each line, so that it asks Redis for nothing twice, and what it will
write of it at the end. Nobody else writes while it runs, and its time does not move.

All reads and writes of what is remembered go through these functions; `known` is theirs alone.

known     remembers                                   asked with    set or forgotten by
calm      nobody waits, drains; nothing is paused     EXISTS        set_sign, a list, …_no_calm
signs     pauses, brake, drainer, flag                MGET          set_sign, delete_signs
entries   of the two lists, gaps too                  LLEN          set_order
waits     how many numbers wait in the two lists      --            set_order
order     of the two lists: first, gaps               HMGET         set_order
later     how many wait in wait_later                 ZCARD         change_later
sizes     of calls_leases, call_starts, calls_hour    ZCARD         …_lease, …_start, change_hour
dropped   what had ended was taken out of the zset    --            holds for the script
clamped   nothing lies too far ahead in the zset      --            holds for the script
average   µs of a call                                HGET          set_average
open      operations with an id, before this script   HMGET         -- (counts holds what changed)
groups    how many of a group run, of #lead           HGET          set_running

and for the end of the script (`closing`):
listed    a list changed, so the flag's time may be another one; moved: its order did
flagged   the flag is raised (lib/taking.lua); company: µs until when all wait for that
changed   zsets whose size changed, so their projection does; leased, started: it grew
busy      somebody waits or is called
landed    groups of which some run no more
counts    what scripts decide by, to be added to tracking:counts
ended     how many operations ended how, in this script
]]

-- Whether nobody waits, in a list or behind a call, nobody drains and nothing is paused: in most scripts
-- that is so, and one command tells it.
local function calm()
  if known.calm == nil then
    known.calm = call('EXISTS', MANUAL, AUTOMATIC, LATER, REQUESTS, DRAINER, FLAG, PAUSED, HELD,
      BRAKE) == 0
  end
  return known.calm
end

-- For a step that expects it otherwise, or makes it so: each of these keys is asked for by itself, when
-- it is needed.
local function expect_no_calm()
  known.calm = false
end

-- What stops a courier and who drains it, in one command; each may be absent.
local IS_PAUSED, IS_HELD, BRAKES, DRAINS, IS_FLAGGED = 1, 2, 3, 4, 5
local function signs()
  if not known.signs then
    known.signs = calm() and {} or call('MGET', PAUSED, HELD, BRAKE, DRAINER, FLAG)
    known.signs[IS_FLAGGED] = known.flagged or known.signs[IS_FLAGGED]
  end
  return known.signs
end

-- Every write of one of them.
local function set_sign(which, key, value, ms)
  signs()[which] = value
  known.calm = false
  call('SET', key, value, 'PX', ms)
end

local function delete_signs(...)
  call('DEL', ...)
  known.signs = nil
end

-- At the end of the script the flag is raised, or not (any more).
local function set_flag(is_up, company)
  known.flagged, known.company = is_up, company or false
  if known.signs then known.signs[IS_FLAGGED] = is_up end
end

local function company_of_flag()
  return known.company
end

-- How many entries MANUAL or AUTOMATIC has. Asked one by one: many steps need to know of one only.
local function entries(list)
  local all = known.entries[list]
  if not all then
    all = calm() and 0 or call('LLEN', list)
    known.entries[list] = all
  end
  return all
end

-- first: position of the first entry; gaps: how many entries are empty.
local function order(list)
  if not known.order then
    local found = call('HMGET', ORDER, 'manual', 'manual_gaps', 'automatic', 'automatic_gaps')
    for i = 1, 4 do found[i] = tonumber(found[i] or 0) end
    known.order = {
      [MANUAL] = { first = found[1], gaps = found[2] },
      [AUTOMATIC] = { first = found[3], gaps = found[4] },
    }
  end
  return known.order[list]
end

-- How many numbers wait in a list.
local function numbers(list)
  local all = entries(list)
  if all == 0 then return 0 end
  local gaps = order(list).gaps
  return gaps < all and all - gaps or 1
end

local function waits()
  known.waits = known.waits or numbers(MANUAL) + numbers(AUTOMATIC)
  return known.waits
end

-- After every change of MANUAL or AUTOMATIC.
local function set_order(list, all, first, gaps)
  local before = order(list)
  known.entries[list], known.waits, known.calm, known.listed = all, nil, false, true
  known.moved = known.moved or all == 0 or first ~= before.first or gaps ~= before.gaps
  before.first, before.gaps = first, math.max(0, gaps)
end

local function later()
  known.later = known.later or calm() and 0 or call('ZCARD', LATER)
  return known.later
end

-- Every change of LATER.
local function change_later(...)
  known.later, known.calm, known.listed = nil, false, true
  return call(...)
end

local function lists_changed()
  return known.listed
end

-- When a clock steps back, nothing may reach further than what could be granted now.
local function clamp(key, most)
  if known.clamped[key] then return end
  known.clamped[key] = true
  for _, member in ipairs(call('ZRANGEBYSCORE', key, '(' .. digits(most), '+inf')) do
    call('ZADD', key, most, member)
  end
end

-- Leases that have ended, or lanes that are free again. Every step drops the leases that have ended
-- before it asks for one; lanes are dropped when they are counted.
local function drop_ended(key)
  if known.dropped[key] then return end
  known.dropped[key] = true
  if call('ZREMRANGEBYSCORE', key, '-inf', digits(now)) > 0 then known.changed[key] = true end
end

local function members(key)
  if key == STARTS then drop_ended(STARTS) end
  local size = known.sizes[key]
  if not size then
    size = call('ZCARD', key)
    known.sizes[key] = size
  end
  return size
end

-- Somebody waits or is called: the line belongs to wait_slugs.
local function mark_busy()
  known.busy = true
end

local function add_lease(id)
  known.sizes[LEASES] = members(LEASES) + call('ZADD', LEASES, digits(now + rules.lease_us), id)
  known.leased, known.changed[LEASES] = true, true
  mark_busy()
end

-- Returns whether it was still there.
local function end_lease(id)
  if call('ZREM', LEASES, id) == 0 then return false end
  known.sizes[LEASES] = known.sizes[LEASES] and known.sizes[LEASES] - 1
  known.changed[LEASES] = true
  return true
end

-- `lane`: the start whose place it takes, or nil; `free`: µs at which its own is free again.
local function add_start(id, free, lane)
  local before = members(STARTS)
  if lane then before = before - call('ZREM', STARTS, lane) end
  known.sizes[STARTS] = before + call('ZADD', STARTS, digits(free), id)
  known.started, known.changed[STARTS] = true, true
end

local function remove_start(id)
  call('ZREM', STARTS, id)
  known.sizes[STARTS] = nil
  known.changed[STARTS] = true
end

-- Every change of the starts of an hour.
local function change_hour(...)
  if call(...) > 0 then known.sizes[HOUR] = nil end
end

-- µs that a call has lately taken, nil before the first one.
local function average_time()
  known.average = known.average or tonumber(call('HGET', COUNTS, 'call_us') or -1)
  return known.average >= 0 and known.average or nil
end

local function set_average(us)
  known.average = us
  call('HSET', COUNTS, 'call_us', digits(us))
end

-- How many of the group of this lead run: wait_inflight tells, until the last of them has ended.
local function running_of(lead)
  known.groups = known.groups or {}
  known.groups[lead] = known.groups[lead] or tonumber(call('HGET', INFLIGHT, '#' .. lead)) or 0
  return known.groups[lead]
end

local function set_running(lead, left)
  known.groups, known.landed = known.groups or {}, known.landed or {}
  known.groups[lead], known.landed[lead] = left, true
end

-- By these counts scripts decide: `calls`, `further` requests of calls, `open` operations.
local function count(name, by)
  known.counts[name] = (known.counts[name] or 0) + (by or 1)
end

local function count_end(state)
  known.ended[state] = (known.ended[state] or 0) + 1
end

-- How many operations ended so in this script.
local function ended_as(state)
  return known.ended[state] or 0
end

-- How many operations with an id wait or run, and how many of them are AUTOMATIC.
local function open_operations()
  known.open = known.open or call('HMGET', COUNTS, 'open', 'open_automatic')
  return tonumber(known.open[1] or 0) + (known.counts.open or 0),
    tonumber(known.open[2] or 0) + (known.counts.open_automatic or 0)
end

-- An operation with an id begins to wait or run (1), or does so no more (-1).
local function count_open(operation, by)
  count('open', by)
  if operation.auto then count('open_automatic', by) end
end

-- None does: what went astray, because somebody deleted keys, counts no more.
local function nothing_is_open()
  local open, automatic = open_operations()
  count('open', -open)
  count('open_automatic', -automatic)
end

-- Lines for wait_slugs.
local busy = {}

-- What is written once for each line, at the end, each apart from the others: one key that is not what it
-- must be keeps nothing else from being written.
local closing
do
  -- One that is no list is not taken for empty.
  local function is_empty(list)
    local is_list, all = pcall(entries, list)
    return is_list and all == 0
  end

  -- Where the lists begin.
  local function close_order()
    if is_empty(MANUAL) and is_empty(AUTOMATIC) then
      call('DEL', ORDER)
    else
      local first, second = order(MANUAL), order(AUTOMATIC)
      call('HSET', ORDER, 'manual', first.first, 'manual_gaps', first.gaps,
        'automatic', second.first, 'automatic_gaps', second.gaps)
    end
  end

  -- The counters that operators read, and the ends of what expires.
  local function close_calls()
    if known.leased then
      -- As long as calls_number: were the leases gone sooner, nobody would take them off it.
      call('PEXPIRE', LEASES, 60000)
    end
    if known.busy then table.insert(busy, line) end
    if known.started then
      call('PEXPIRE', STARTS, math.ceil((rules.ahead_us + rules.late_us + rules.window_us) / 1000))
    end
    if known.changed[LEASES] then
      local calls = members(LEASES)
      if calls == 0 then
        call('DEL', CALLS)
      elseif known.leased or not call('SET', CALLS, calls, 'XX', 'KEEPTTL') then
        call('SET', CALLS, calls, 'PX', 60000)
      end
    end
    if known.changed[STARTS] then
      local starts = members(STARTS)
      if starts == 0 then
        call('DEL', SECOND)
      elseif known.started then
        call('SET', SECOND, starts, 'PX', 1000)
      else
        call('SET', SECOND, starts, 'XX', 'KEEPTTL')
      end
    end
  end

  local function close_counts()
    for name, by in pairs(known.counts) do
      -- What builds before this one did not count must not be taken off.
      if by ~= 0 and call('HINCRBY', COUNTS, name, by) < 0 then call('HDEL', COUNTS, name) end
    end
  end

  local function close_groups()
    for lead in pairs(known.landed) do
      local left = known.groups[lead]
      if left > 0 then
        call('HSET', INFLIGHT, '#' .. lead, digits(left))
      else
        call('HDEL', INFLIGHT, '#' .. lead)
      end
    end
  end

  -- Each with what is known where it has something to write.
  closing = {
    { 'moved', close_order }, { 'changed', close_calls }, { 'counts', close_counts }, { 'landed', close_groups },
  }
end

local function close_line(attempt)
  for i = 1, #closing do
    if known[closing[i][1]] then attempt(closing[i][2]) end
  end
end
