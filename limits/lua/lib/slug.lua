--[[
slug: names for the keys, the rules and the time that every operation on a slug works with.

One script does one operation for many requests at once, of the same slug or of others: `turn_to`
binds the names to the slug of the request at hand. lib/batch.lua calls it.

KEYS, 20 for each slug:
 1 calls_number          8 wait_requests          15 calls_day
 2 sec_calls             9 wait_inflight          16 tracking:counts
 3 calls_leases         10 wait_drainer           17 wait_slugs
 4 call_starts          11 wait_list_activated    18 tracking:epoch
 5 wait_list            12 calls_paused           19 tracking:status: (prefix)
 6 wait_list_automatic  13 calls_breaker          20 tracking:answer:<slug>: (prefix)
 7 wait_later           14 calls_hour

What an operation sees as its own ARGV:
ARGV[1]  rules    of the slug, as `rules`: slug, epoch, token (of this process), concurrent,
                  per_second, window_us, late_us, ahead_us, lease_us, max_waiting, max_age_ms,
                  answer_ms, deaths, per_hour, per_day, day_resets_at_us
ARGV[2]  reports  JSON: [start id, send in µs of Redis' clock, …], measured since the last script;
                  they are noted before the operation begins

The two prefixes are completed with ids that only the script learns, from records it reads itself;
that is why the project wants one Redis and no Cluster.
]]
local call = redis.call
local CALLS, SECOND, LEASES, STARTS, MANUAL, AUTOMATIC, LATER
local REQUESTS, INFLIGHT, DRAINER, FLAG, PAUSED, BREAKER, HOUR, DAY
local COUNTS, SLUGS, EPOCH, STATUS, ANSWER
local rules, touched

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)

local KEYS_EACH = 20
local slugs = {}

-- index: of the slug in KEYS, from 1; its rules stand as JSON in ARGV[2 + index] of the script.
local function turn_to(index)
  local k = (index - 1) * KEYS_EACH
  CALLS, SECOND, LEASES, STARTS = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4]
  MANUAL, AUTOMATIC, LATER = KEYS[k + 5], KEYS[k + 6], KEYS[k + 7]
  REQUESTS, INFLIGHT, DRAINER, FLAG = KEYS[k + 8], KEYS[k + 9], KEYS[k + 10], KEYS[k + 11]
  PAUSED, BREAKER, HOUR, DAY = KEYS[k + 12], KEYS[k + 13], KEYS[k + 14], KEYS[k + 15]
  COUNTS, SLUGS, EPOCH = KEYS[k + 16], KEYS[k + 17], KEYS[k + 18]
  STATUS, ANSWER = KEYS[k + 19], KEYS[k + 20]
  touched = slugs[index]
  if not touched then
    touched = { rules = cjson.decode(ARGV[2 + index]), counts = {}, clamped = {} }
    slugs[index] = touched
  end
  rules = touched.rules
end

-- What stays as it is while the script runs is read once for each slug: nobody else writes now.
-- Whoever changes what `name` stands for says so by `changed(name)`.
local function known(name, read)
  local value = touched[name]
  if value == nil then
    value = read()
    touched[name] = value
  end
  return value
end

local function changed(name)
  touched[name] = nil
end

-- Counters are written once for each slug, when all requests of the script are done.
local function count(name)
  touched.counts[name] = (touched.counts[name] or 0) + 1
end

-- 14 digits are all that .. and tostring keep of a number: microseconds need 16.
local function digits(number)
  return string.format('%.0f', number)
end

local quiet_of = {}

-- quiet: µs until which nobody starts, or nil when this Redis is not the one the worker knew.
local function quiet_until()
  if quiet_of[rules.epoch] then return quiet_of[rules.epoch] end
  local name, text = string.match(call('GET', EPOCH) or '', '^(%S+) (%d+)$')
  if name ~= rules.epoch then return nil end
  local quiet = tonumber(text)
  -- It is shorter than a lease, so further ahead it lies only because the clock stepped back.
  if quiet > now + rules.lease_us then
    quiet = now + rules.lease_us
    call('SET', EPOCH, name .. ' ' .. digits(quiet))
  end
  quiet_of[name] = quiet
  return quiet
end

-- A lane that went to another call since is left alone (XX); up or down, the report is the truth.
local function note(reports)
  if reports == '[]' then return end
  reports = cjson.decode(reports)
  for i = 1, #reports, 2 do
    call('ZADD', STARTS, 'XX', reports[i + 1] + rules.window_us, reports[i])
    if rules.per_hour then call('ZADD', HOUR, 'XX', reports[i + 1], reports[i]) end
  end
end
