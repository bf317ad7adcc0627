--[[
place: tells where a number waits, what keeps it, and when its call is expected to start. Changes nothing.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  number   empty: tell of the line
  itself   1: of an operation that waits, so a call that runs for the number need not be its own

Uses     memory: average_time, entries, later, numbers, order, waits
         record: read_record
         brake: calls_alone, paused_us
         quotas: quota_ends
         lanes: in_share, starts_at
         waiting: due_of_quota, list_of, nobody_waits, numbers_before, turns_before
         flight: running
         filling: leading

Returns  {now, "nowhere"}          nobody waits for the number
         {now, "running", tries}   its call runs; tries: failed calls before it
         {now, "waiting", list, ahead, tries, why, ends, starts}
         {now, "line", why, ends, starts}   starts: of the last that waits
           list     manual, automatic, later (a retry that is not due) or behind (its number runs)
           ahead    how many have their turn before; empty where that is not known
           why      what keeps it: no_worker, quiet, paused, probing, rate, concurrency, per_hour, per_day,
                    filling (company for its call), account_quota (the calls that its account has a day are
                    used up), retry, running; of a line also empty, when nobody waits
           ends     µs when that ends, starts: µs when the call is expected to start; empty where nobody knows
]]
local LOOKED_AT = 20000 -- entries of a list, for a number that was pushed by hand: half a millisecond

-- µs from which on calls may start; nil where nobody knows. What stops them until then, if anything, and
-- when that ends.
local function opens()
  local quiet = tonumber(string.match(call('GET', 'tracking:epoch') or '', ' (%d+)$') or 0)
  if quiet > now then return quiet, 'quiet', quiet end
  local paused = paused_us()
  if paused > 0 then
    if call('PTTL', HELD) == -1 then return nil, 'paused', '' end
    return now + paused, 'paused', now + paused
  end
  return now, calls_alone() and 'probing' or nil, ''
end

-- µs at which a slot is free for a call before which `turns` others start, and whether all are taken now.
local function by_slots(turns, from, most)
  local average = average_time() or 0
  local function granted_before(behind)
    local ends = call('ZRANGE', LEASES, -behind, -behind, 'WITHSCORES')[2]
    return ends and tonumber(ends) - rules.lease_us
  end
  local granted, first = granted_before(most - turns % most), granted_before(most)
  local free = math.max(from, (granted or 0) + average) + math.floor(turns / most) * average
  return free, first ~= nil and first + rules.lease_us > now
end

-- Some couriers take several requests for one answer.
local function starts_of_a_call()
  local found = call('HMGET', COUNTS, 'further', 'calls')
  return found[1] and found[2] and 1 + found[1] / found[2] or 1
end

-- The quota of its account, where that keeps a number for longer than the rest: as `estimate`.
local function with_quota(number, why, ends, starts)
  local quota = quota_ends(number)
  local _, last = due_of_quota(quota or 0)
  if not quota or starts == '' or starts > last * 1000 then return why, ends, starts end
  return 'account_quota', quota, math.max(starts, quota)
end

-- What keeps the call for a number of this list, before which `turns` others have theirs; when that ends; when it
-- is expected to start.
local function estimate(turns, list)
  local from, stop, ends = opens()
  if call('EXISTS', 'tracking:workers') == 0 then return 'no_worker', '', '' end
  if not from then return stop, ends, '' end
  -- After a pause one call alone tries; its answer lets the others go.
  local alone, calls = calls_alone(), math.floor(turns / rules.together)
  if alone and calls > 0 then from = from + (average_time() or 0) end
  local starts, why = starts_at(turns, from, starts_of_a_call())
  local free, taken = by_slots(calls, from, alone and calls == 0 and 1 or rules.concurrent)
  if free > starts or taken and free == starts then starts, why = free, 'concurrency' end
  local _, company = leading()
  local share = list == AUTOMATIC and calls > 0 and in_share(calls) or 0
  company = math.max(company or 0, share)
  if company > starts then starts, why = company, 'filling' end
  if stop then return stop, ends, starts end
  return why, starts, starts
end

local function of_line()
  local _, stop, ends = opens()
  if nobody_waits() then return { now, 'line', stop or '', ends, '' } end
  local list = numbers(AUTOMATIC) > 0 and AUTOMATIC or MANUAL
  local why, until_us, starts = estimate(0)
  if waits() == 0 and not stop and why ~= 'no_worker' then
    why, until_us = with_quota(call('ZRANGE', LATER, 0, 0)[1], '', '', 0)
  end
  if starts ~= '' then
    local _, _, last = estimate(math.max(0, waits() - 1), list)
    local due = later() > 0 and call('ZRANGE', LATER, -1, -1, 'WITHSCORES')[2] * 1000 or 0
    starts = math.max(last, due)
    -- What the limits alone keep goes on being kept until the last has started.
    if why == 'rate' or why == 'concurrency' then until_us = starts end
  end
  return { now, 'line', why, until_us, starts }
end

-- The list in which a number stands, and its index there.
local function listed(number, record)
  if record and record.position then
    local list = list_of(record)
    return list, record.position - order(list).first
  end
  for _, list in ipairs({ MANUAL, AUTOMATIC }) do
    budget.left = budget.left - math.min(entries(list), LOOKED_AT) / 400
    local index = call('LPOS', list, number, 'MAXLEN', LOOKED_AT)
    if index then return list, index end
  end
end

local function tries_of(record)
  return record and (record.tries or record.attempts) or 0
end

local function of_a_retry(number, record)
  local due = tonumber(call('ZSCORE', LATER, number) or now_ms) * 1000
  local list = list_of(record)
  local turns = turns_before(list, numbers(list)) + (call('ZRANK', LATER, number) or 0)
  local why, ends, starts = estimate(turns, list)
  if starts ~= '' and due > starts then
    starts = due
    if ends ~= '' and due > ends then why, ends = 'retry', due end
  end
  return { now, 'waiting', 'later', '', tries_of(record), with_quota(number, why, ends, starts) }
end

return function(number, itself)
  if number == '' then return of_line() end
  local record, call_id = read_record(REQUESTS, number), running(number)
  if call_id and not (record and itself == '1') then
    return { now, 'running', tries_of(read_record(INFLIGHT, call_id)) }
  end
  local state = record and record.state
  if state == 'behind' then
    return { now, 'waiting', 'behind', '', tries_of(record), 'running', '', '' }
  end
  if state == 'later' then return of_a_retry(number, record) end
  local list, index = listed(number, record)
  if not list and not record then return { now, 'nowhere' } end
  local name = (list or list_of(record)) == MANUAL and 'manual' or 'automatic'
  -- Its list was deleted: the next sweep writes it again.
  if not list then return { now, 'waiting', name, '', tries_of(record), 'queue', '', '' } end
  local turns = turns_before(list, numbers_before(list, index))
  return { now, 'waiting', name, turns, tries_of(record), with_quota(number, estimate(turns, list)) }
end
