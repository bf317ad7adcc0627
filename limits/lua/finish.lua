--[[
finish: calls of one group are over, or one call. Their operations end, and with them those that wait for
their numbers and find the answer fresh enough; the freed slot goes to the next in line.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  id       of a call
  said     of it: the output, JSON, a tab, and the rest of the verdict, JSON:
           state, observed (ms: its grant), answered,
           fields that it asked with, or none,
           setback (as in retry.lua: what the last failed call means for the line), or none,
           attempt (as there), or none
           unsent: certainly nothing was sent, so the start is given back; or none
  number   that it is for
  base     of the calls that are taken next, as in take.lua
  room     as in hand_back.lua
           then id, said and number of each of the others

Uses     context: digits, note_measured
         memory: average_time, calm, drop_ended, expect_no_calm, set_average
         state: call_is_over, parcel_of, tally_call
         record: answer_in, end_where, everyone, nobody_left, note_operations, record_in, serves, set_since,
           waiting_record, write_record
         brake: note_answer, note_failure
         lanes: give_start_back
         waiting: nobody_waits, put_head, put_tail, unlist
         flight: land, leads
         taking: each_us, is_in_hand, what_follows

Returns  {now, left, grants, why, ask, put}
         left      ids of those of which more than 100 operations end, or for which the script had no time: send
                   them again, nothing was taken yet
         the rest  as in hand_back.lua; why: also "named", when nobody lacked the slot and somebody is
                   named who asks in time
]]
-- The calls of the number, with this one; the script may be sent again, so the record stays as it is.
local function calls_made(record, verdict)
  if not verdict.attempt and not (record and record.made) then return nil end
  local made = { unpack(record and record.made or {}) }
  if verdict.attempt then table.insert(made, { verdict.observed, unpack(verdict.attempt) }) end
  return #made > 0 and cjson.encode(made) or nil
end

-- The verdict on a call. The output is written as it came; the rest is mostly the same for all of a group, so that
-- it is read once: what differs is set for each.
local verdict_in
do
  local heard = {}

  function verdict_in(said, record)
    local tab = string.find(said, '\t', 1, true)
    local text = string.sub(said, tab + 1)
    local verdict = heard[text]
    if not verdict then
      verdict = cjson.decode(text)
      heard[text] = verdict
    end
    verdict.said, verdict.output, verdict.started = said, string.sub(said, 1, tab - 1), verdict.observed
    verdict.attempts = calls_made(record, verdict)
    return verdict
  end
end

-- A number that is given up takes those along who waited for so long themselves.
local function ends_of(record)
  local dying = record.dying
  if type(dying) ~= 'table' then return everyone end
  return function(at)
    if at <= dying.before then return true end
    dying.others_since = math.min(dying.others_since or at, at)
    return false
  end
end

-- Those of a number that was given up who came too late for that.
local function others_wait_on(number, record)
  set_since(record, record.dying.others_since or now_ms)
  put_head(number, record)
end

local function serves_by(verdict, record)
  if not serves(verdict, record) then return function() return false end end
  return function(at, age)
    return at <= verdict.observed or now_ms - verdict.observed < (age or rules.max_age_ms)
  end
end

-- Ends those who wait for the number of a call that ends, where the verdict is an answer for them. Returns false
-- when there are more to look at.
local function answer_waiting(each, verdict, answered)
  local number, record = each.number, each.waiting
  if not record then return true end
  local looked = not answered or end_where(number, record, verdict, serves_by(verdict, record))
  if not looked then
    write_record(REQUESTS, number, record)
  elseif nobody_left(record) then
    unlist(number, record)
    call('HDEL', REQUESTS, number)
  elseif record.state == 'behind' and (not each.runs or each.runs == each.id) then
    put_tail(number, record)
  else
    write_record(REQUESTS, number, record)
  end
  return looked
end

-- How long calls take matters for the estimate only: so only while somebody waits, and only where
-- calls last so long that slots, and not lanes, are what the others wait for.
local function count_time(granted)
  local took = math.min(math.max(0, now - granted), rules.lease_us) -- the clock may have stepped, or leapt
  local average = average_time()
  if average and math.abs(took - average) * 16 < average then return end -- the estimate needs no more
  if average and each_us(took) == each_us(average) then return end
  average = average or took
  set_average(average + (took - average) / 8)
end

-- An answer that comes late, for a call that was taken over, must not replace a newer one. One of a time
-- that is still to come is not newer: another Redis, whose clock was ahead, granted its call.
local function remember(number, verdict, late)
  local text_before = late and call('GET', ANSWER .. number)
  local before = text_before and answer_in(text_before)
  if before and before.observed >= verdict.observed and before.observed <= now_ms then return end
  call('SET', ANSWER .. number, verdict.said, 'PX', digits(rules.answer_ms))
end

-- A call in flight says so itself. One that was taken over may have been granted before as well.
local function is_forgotten(number, record, verdict)
  if record then return record.forgotten end
  local at = rules.counted and call('GET', FORGOTTEN .. redis.sha1hex(parcel_of(number)))
  return at and verdict.observed * 1000 <= tonumber(at)
end

-- A call that ends: its id, what is said, its number, its record and its number's call; who waits for that number is
-- still to be read.
local function end_of(id, said, number, text, runs)
  local record = record_in(INFLIGHT, id, text)
  -- Others mostly wait where this one came from: no need to ask first whether all is calm.
  if record and not record.job then expect_no_calm() end
  return { id = id, said = said, number = number, record = record, runs = runs }
end

-- The calls of a group that end: all that is known of them is read together. told: id, said, number of each.
local function ends_in(told)
  local ends, fields, asked, carriers = {}, {}, {}, {}
  for i = 1, #told / 3 do
    asked[i] = told[3 * i]
    fields[2 * i - 1], fields[2 * i] = told[3 * i - 2], '=' .. asked[i]
  end
  local flying = call('HMGET', INFLIGHT, unpack(fields))
  for i, number in ipairs(asked) do
    local each = end_of(told[3 * i - 2], told[3 * i - 1], number, flying[2 * i - 1], flying[2 * i])
    ends[i] = each
    if each.record then carriers[#carriers + 1] = { number, each.record } end
  end
  local waiting = not calm() and call('HMGET', REQUESTS, unpack(asked)) or {}
  for i, each in ipairs(ends) do
    each.waiting = waiting[i] and record_in(REQUESTS, each.number, waiting[i])
    if each.waiting then table.insert(carriers, { each.number, each.waiting }) end
  end
  note_operations(carriers)
  return ends
end

-- Ends a call with its operations; `gone`: as in `land`. Returns false when there are more
-- to look at, else true; the µs of its grant, where its slot was still held; whether that is free now; and whether
-- others may call again who could not.
local function end_call(each, gone)
  local id, number, record = each.id, each.number, each.record
  local verdict = verdict_in(each.said, record)
  local answered = verdict.answered and not is_forgotten(number, record, verdict)
  local lifted = verdict.answered and note_answer()
  if answered and rules.remembers then remember(number, verdict, not record) end
  if record and not record.dying and not record.tallied and leads(id, record) then call_is_over(record.at) end
  local ended = not record or end_where(record.n, record, verdict, ends_of(record))
  local looked = ended and answer_waiting(each, verdict, answered)
  tally_call('idle')
  if not looked then
    -- The lease stays until all have ended, so that no sweep takes the call for a lost one.
    if record then record.tallied = true end
    if record then write_record(INFLIGHT, id, record) end
    return false
  end
  if not record or leads(id, record) then note_measured(id) end
  local granted, flew = record and tonumber(record.granted), record and { n = record.n, lead = record.lead }
  if record and verdict.unsent then give_start_back(id, record) end
  if record and verdict.setback then note_failure(record.lead or number, granted, verdict.setback) end
  -- Before the call's record goes: should a list not be what it must be, nobody is lost.
  if record and not nobody_left(record) then others_wait_on(number, record) end
  local leased, is_free = land(id, flew, each.runs, gone)
  return true, leased and granted, leased and is_free, lifted
end

-- Ends as many of them as the script has time for, each for itself: what goes wrong with one of them keeps no other
-- from its end. Returns the ids of those that are to be sent again, what else `end_call` tells of them, together, and
-- what went wrong first.
local function end_all(ends)
  local EACH, left, gone = 1, {}, {}
  local granted, freed, lifted, wrong = nil, false, false, nil
  for i, each in ipairs(ends) do
    if i > 1 then budget.left = budget.left - EACH end
    local done, looked, held, is_free, lifts = true, false
    if i == 1 or budget.left > 0 then done, looked, held, is_free, lifts = pcall(end_call, each, gone) end
    if not done then
      wrong = wrong or looked
    elseif not looked then
      table.insert(left, each.id)
    else
      if each.record then granted = held end
      freed, lifted = freed or is_free, lifted or lifts
    end
  end
  if #gone > 0 then call('HDEL', INFLIGHT, unpack(gone)) end
  return left, granted, freed, lifted, wrong
end

-- The reply once all have ended: the slot goes to the next in line. `first`: as for `turn`; the rest as `end_call` and
-- `end_all` tell.
local function passed_on(base, room, first, granted, freed, lifted)
  if granted and not nobody_waits() then
    if freed then count_time(granted) end
    local is_due = room == '' or lifted or not is_in_hand(tonumber(room))
    if not is_due then return { now, {}, {}, 'named', 0, 0 } end
  end
  return { now, {}, what_follows(base, room, first, freed) }
end

local function one_ends(id, said, number, base, room)
  local flying = call('HMGET', INFLIGHT, id, '=' .. number)
  local each = end_of(id, said, number, flying[1], flying[2])
  each.waiting = waiting_record(number)
  local looked, granted, freed, lifted = end_call(each)
  if not looked then return { now, { id }, {}, 'more', 0, 0 } end
  return passed_on(base, room, each.record ~= nil, granted, freed, lifted)
end

-- Of one call much less is to be done.
return function(id, said, number, base, room, ...)
  drop_ended(LEASES)
  if not ... then return one_ends(id, said, number, base, room) end
  local ends, first = ends_in({ id, said, number, ... }), false
  local left, granted, freed, lifted, wrong = end_all(ends)
  if wrong then error(wrong, 0) end
  if #left > 0 then return { now, left, {}, 'more', 0, 0 } end
  for _, each in ipairs(ends) do first = first or each.record ~= nil end
  return passed_on(base, room, first, granted, freed, lifted)
end
