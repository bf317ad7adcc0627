--[[
finish: a call is over. Its operations end, and with them those that wait for its number and find
the answer fresh enough; the freed slot goes to the next in line.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  id       of the call
  text     the verdict, JSON: state, output (JSON text), observed (ms: its grant), answered,
           fields that it asked with, or none,
           setback (as in retry.lua: what the last failed call means for the line), or none,
           attempt (as there), or none
           unsent: certainly nothing was sent, so the start is given back; or none
  number
  base     of the calls that are taken next, as in take.lua
  room     as in hand_back.lua

Uses     context: decoded, digits, note_measured
         memory: average_time, drop_ended, expect_no_calm, set_average
         state: call_is_over, parcel_of, tally_call
         record: end_where, everyone, nobody_left, record_in, serves, waiting_record, write_record
         brake: note_answer, note_failure
         lanes: give_start_back
         waiting: nobody_waits, put_head, put_tail, unlist
         flight: land, leads
         taking: each_us, is_in_hand, what_follows

Returns  {now, more, grants, why, ask, put}
         more      1: more than 100 operations end; send it again, nothing was taken yet
         the rest  as in hand_back.lua; why: also "named", when nobody lacked the slot and somebody is
                   named who asks in time
]]
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
  record.since = record.dying.others_since or now_ms
  put_head(number, record)
end

local function serves_by(verdict, record)
  if not serves(verdict, record) then return function() return false end end
  return function(at, age)
    return at <= verdict.observed or now_ms - verdict.observed < (age or rules.max_age_ms)
  end
end

-- record: of those who wait; `runs`: the call that runs for the number; `id`: the one that ends.
-- Returns false when there are more to look at.
local function answer_waiting(id, verdict, number, runs, record)
  if not record then return true end
  local looked = not verdict.answered or end_where(number, record, verdict, serves_by(verdict, record))
  if not looked then
    write_record(REQUESTS, number, record)
  elseif nobody_left(record) then
    unlist(number, record)
    call('HDEL', REQUESTS, number)
  elseif record.state == 'behind' and (not runs or runs == id) then
    put_tail(number, record)
  else
    write_record(REQUESTS, number, record)
  end
  return looked
end

-- How long calls take matters for the estimate only: so only while somebody waits, and only where
-- calls last so long that slots, and not lanes, are what the others wait for.
local function count_time(granted)
  local took = math.max(0, now - granted) -- the clock may have stepped back
  local average = average_time()
  if average and each_us(took) == each_us(average) then return end
  if average and math.abs(took - average) * 16 < average then return end -- the estimate needs no more
  average = average or took
  set_average(average + (took - average) / 8)
end

-- An answer that comes late, for a call that was taken over, must not replace a newer one. One of a time
-- that is still to come is not newer: another Redis, whose clock was ahead, granted its call.
local function remember(number, verdict, text, late)
  local text_before = late and call('GET', ANSWER .. number)
  local before = text_before and decoded(text_before)
  if before and before.observed >= verdict.observed and before.observed <= now_ms then return end
  call('SET', ANSWER .. number, text, 'PX', digits(rules.answer_ms))
end

-- The calls of the number, with this one; the script may be sent again, so the record stays as it is.
local function calls_made(record, verdict)
  if not verdict.attempt and not (record and record.made) then return nil end
  local made = { unpack(record and record.made or {}) }
  if verdict.attempt then table.insert(made, { verdict.observed, unpack(verdict.attempt) }) end
  return #made > 0 and cjson.encode(made) or nil
end

-- A call in flight says so itself. One that was taken over may have been granted before as well.
local function is_forgotten(number, record, verdict)
  if record then return record.forgotten end
  local at = rules.counted and call('GET', FORGOTTEN .. redis.sha1hex(parcel_of(number)))
  return at and verdict.observed * 1000 <= tonumber(at)
end

return function(id, text, number, base, room)
  drop_ended(LEASES)
  local verdict = cjson.decode(text)
  verdict.started = verdict.observed
  local flying = call('HMGET', INFLIGHT, id, '=' .. number)
  local record, runs = record_in(INFLIGHT, id, flying[1]), flying[2]
  verdict.attempts = calls_made(record, verdict)
  -- Others mostly wait where this one came from: no need to ask first whether all is calm.
  if record and not record.job then expect_no_calm() end
  local lifts, waiting = verdict.answered, waiting_record(number)
  if is_forgotten(number, record, verdict) then verdict.answered = false end
  local lifted = lifts and note_answer()
  if verdict.answered and rules.remembers then remember(number, verdict, text, not record) end
  if record and not record.dying and not record.tallied and leads(id, record) then call_is_over(record.at) end
  local ended = not record or end_where(record.n, record, verdict, ends_of(record))
  local looked = ended and answer_waiting(id, verdict, number, runs, waiting)
  tally_call('idle')
  if not looked then
    -- The lease stays until all have ended, so that no sweep takes the call for a lost one.
    if record then record.tallied = true end
    if record then write_record(INFLIGHT, id, record) end
    return { now, 1, {}, 'more', 0, 0 }
  end
  if not record or leads(id, record) then note_measured(id) end
  local granted, flew = record and tonumber(record.granted), record and { n = record.n, lead = record.lead }
  if record and verdict.unsent then give_start_back(id, record) end
  if record and verdict.setback then note_failure(record.lead or number, granted, verdict.setback) end
  -- Before the call's record goes: should a list not be what it must be, nobody is lost.
  if record and not nobody_left(record) then others_wait_on(number, record) end
  local leased, is_free = land(id, flew, runs)
  if leased and record and not nobody_waits() then
    if is_free then count_time(granted) end
    local is_due = room == '' or lifted or not is_in_hand(tonumber(room))
    if not is_due then return { now, 0, {}, 'named', 0, 0 } end
  end
  return { now, 0, what_follows(base, room, record ~= nil, leased and is_free) }
end
