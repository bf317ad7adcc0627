--[[
slug: names for the keys, the rules and the time that every operation on a slug works with.

One script does one operation for many requests at once, of the same slug or of others: `turn_to`
binds the names to the slug of the request at hand. lib/batch.lua calls it.

KEYS     wait_list:<slug>, one for each slug; the slug's other keys are named from it here, as in
         limits/keys.py.

What an operation sees as its own ARGV:
ARGV[1]  rules    of the slug, as `rules`: epoch, token (of this process), concurrent,
                  per_second, window_us, late_us, ahead_us, lease_us, max_waiting, max_age_ms,
                  answer_ms, deaths, per_hour, per_day, day_resets_at_us
ARGV[2]  reports  JSON: [start id, send in µs of Redis' clock, …], measured since the last script;
                  they are noted before the operation begins

`STATUS` and `ANSWER` are prefixes, completed with ids that only the script learns. Names that are
not in KEYS are why the project wants one Redis and no Cluster.
]]
local call = redis.call
local CALLS, SECOND, LEASES, STARTS, MANUAL, AUTOMATIC, LATER
local REQUESTS, INFLIGHT, DRAINER, FLAG, PAUSED, BREAKER, HOUR, DAY
local COUNTS, ANSWER
local SLUGS, EPOCH, STATUS = 'wait_slugs', 'tracking:epoch', 'tracking:status:'
local slug, rules, touched

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)

local LIST = 'wait_list:'
local slugs, laws = {}, {}

-- The rules in ARGV[at] of the script: JSON, and the same for many slugs.
local function rules_in(at)
  if not laws[at] then laws[at] = cjson.decode(ARGV[at]) end
  return laws[at]
end

-- index: of the slug in KEYS, from 1; at: where its rules stand in ARGV of the script. A slug is there
-- twice when its rules have just changed; what is known of it is known once.
local function turn_to(index, at)
  MANUAL = KEYS[index]
  slug = string.sub(MANUAL, #LIST + 1)
  CALLS, SECOND = 'calls_number:' .. slug, 'sec_calls:' .. slug
  LEASES, STARTS = 'calls_leases:' .. slug, 'call_starts:' .. slug
  AUTOMATIC, LATER = 'wait_list_automatic:' .. slug, 'wait_later:' .. slug
  REQUESTS, INFLIGHT = 'wait_requests:' .. slug, 'wait_inflight:' .. slug
  DRAINER, FLAG = 'wait_drainer:' .. slug, 'wait_list_activated:' .. slug
  PAUSED, BREAKER = 'calls_paused:' .. slug, 'calls_breaker:' .. slug
  HOUR, DAY = 'calls_hour:' .. slug, 'calls_day:' .. slug
  COUNTS, ANSWER = 'tracking:counts:' .. slug, 'tracking:answer:' .. slug .. ':'
  rules = rules_in(at)
  touched = slugs[slug]
  if not touched then
    touched = { index = index, at = at, counts = {} }
    slugs[slug] = touched
  end
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
