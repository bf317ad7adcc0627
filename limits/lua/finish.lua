--[[
finish: a call is over. Its operations end, whoever waits for its number and finds the answer fresh
enough ends with them, and the freed slot goes to the next in line.

KEYS     of the slug, see lib/slug.lua
ARGV[1]  rules     see lib/slug.lua
ARGV[2]  reports   see lib/slug.lua
ARGV[3]  call id
ARGV[4]  verdict   JSON: state, output (JSON text), tracking, observed (ms: its grant), answered
ARGV[5]  number
ARGV[6]  base      of the calls that are taken next, as in take.lua
ARGV[7]  room      as in take.lua

Returns  {now, more, grants, why, ask, put}
         more      1: more than 100 operations end; send it again, nothing was taken yet
         the rest  as in take.lua
]]
local id, verdict, number = ARGV[3], cjson.decode(ARGV[4]), ARGV[5]
verdict.started = verdict.observed

local function serves(at, age)
  return at <= verdict.observed or now_ms - verdict.observed < (age or rules.max_age_ms)
end

-- Returns false when there are more to look at.
local function answer_waiting(runs)
  local record = read_record(REQUESTS, number)
  if not record then return true end
  local looked = not verdict.answered or end_where(record, verdict, serves)
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

-- How long calls take matters for the estimate only, so only while somebody waits.
local function count_time(granted)
  local took = math.max(0, now - tonumber(granted)) -- the clock may have stepped back
  local average = tonumber(call('HGET', COUNTS, 'call_us') or took)
  call('HSET', COUNTS, 'call_us', digits(average + (took - average) / 8))
end

-- An answer that comes late, for a call that was taken over, must not replace a newer one.
local function remember(late)
  local known = late and call('GET', ANSWER .. number)
  if known and cjson.decode(known).observed >= verdict.observed then return end
  call('SET', ANSWER .. number, ARGV[4], 'PX', rules.answer_ms)
end

reap()
local flying = call('HMGET', INFLIGHT, id, '=' .. number)
local record, runs = flying[1] and cjson.decode(flying[1]) or nil, flying[2]
if verdict.answered then
  remember(not record)
  if stops() > 0 then
    call('DEL', BREAKER)
    changed('stops')
  end
end
local ended = not record or end_where(record, verdict, everyone)
if not ended or not answer_waiting(runs) then
  -- The lease stays until all have ended, so that no sweep takes the call for a lost one.
  if record then write_record(INFLIGHT, id, record) end
  return { now, 1, {}, 'more', 0, 0 }
end
if land(id, record, runs) and record and not nobody_waits() then count_time(record.granted) end
local grants, why, ask, put = turn(ARGV[6], ARGV[7], false)
return { now, 0, grants, why, ask, put }
