--[[
slug: names for the keys, the rules and the time that every script of one slug works with.

KEYS[1]  calls_number        KEYS[8]  wait_requests        KEYS[15] calls_day
KEYS[2]  sec_calls           KEYS[9]  wait_inflight        KEYS[16] tracking:counts
KEYS[3]  calls_leases        KEYS[10] wait_drainer         KEYS[17] wait_slugs
KEYS[4]  call_starts         KEYS[11] wait_list_activated  KEYS[18] tracking:epoch
KEYS[5]  wait_list           KEYS[12] calls_paused         KEYS[19] tracking:status: (prefix)
KEYS[6]  wait_list_automatic KEYS[13] calls_breaker        KEYS[20] tracking:answer:<slug>: (prefix)
KEYS[7]  wait_later          KEYS[14] calls_hour
ARGV[1]  rules    JSON: slug, epoch, token (of this process), concurrent, per_second, window_us,
                  late_us, ahead_us, lease_us, max_waiting, max_age_ms, answer_ms, deaths,
                  per_hour, per_day, day_resets_at_us
ARGV[2]  reports  JSON: [start id, send in µs of Redis' clock, …], measured since the last script

The two prefixes are completed with ids that only the script learns, from records it reads itself;
that is why the project wants one Redis and no Cluster.
]]
local call = redis.call
local CALLS, SECOND, LEASES, STARTS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local MANUAL, AUTOMATIC, LATER = KEYS[5], KEYS[6], KEYS[7]
local REQUESTS, INFLIGHT, DRAINER, FLAG = KEYS[8], KEYS[9], KEYS[10], KEYS[11]
local PAUSED, BREAKER, HOUR, DAY = KEYS[12], KEYS[13], KEYS[14], KEYS[15]
local COUNTS, SLUGS, EPOCH = KEYS[16], KEYS[17], KEYS[18]
local STATUS, ANSWER = KEYS[19], KEYS[20]

local rules = cjson.decode(ARGV[1])
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local now_ms = math.floor(now / 1000)

-- 14 digits are all that .. and tostring keep of a number: microseconds need 16.
local function digits(number)
  return string.format('%.0f', number)
end

-- quiet: µs until which nobody starts, or nil when this Redis is not the one the worker knew.
local function quiet_until()
  local name, text = string.match(call('GET', EPOCH) or '', '^(%S+) (%d+)$')
  if name ~= rules.epoch then return nil end
  local quiet = tonumber(text)
  -- It is shorter than a lease, so further ahead it lies only because the clock stepped back.
  if quiet > now + rules.lease_us then
    quiet = now + rules.lease_us
    call('SET', EPOCH, name .. ' ' .. digits(quiet))
  end
  return quiet
end

-- A lane that went to another call since is left alone (XX); up or down, the report is the truth.
local reports = cjson.decode(ARGV[2])
for i = 1, #reports, 2 do
  call('ZADD', STARTS, 'XX', reports[i + 1] + rules.window_us, reports[i])
  if rules.per_hour then call('ZADD', HOUR, 'XX', reports[i + 1], reports[i]) end
end
