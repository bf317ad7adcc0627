--[[
leap: Redis' clock went forward by more than time did.

Calls run that no lease keeps a slot for any more, so nobody starts for as long as the longest lease. One
call time-out would do but for workers that hang: their calls end when their parents kill them, within the
lease. What the clock leapt over is remembered for an hour: quotas per hour count that much further back.

Every worker reports the leap that it sees. A worker whose `latest` lies before `to` reports the one that is
known.

KEYS[1]  tracking:epoch    string "<name> <quiet until, µs>"
KEYS[2]  tracking:leap     string "<to, µs> <by, µs>", for an hour: where the last leap ended, and by how
         much the clock leapt in all
ARGV[1]  quiet    µs for which nobody starts (the longest lease)
ARGV[2]  latest   µs, what the clock can show at most now, had it not leapt

Returns  {now, news}
         news      1: this worker is the first to tell of it; 0: there was no leap, another worker was
                   first, or Redis forgot all it knew (epoch.lua)
]]
local HOUR_MS = 3600000
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local latest = tonumber(ARGV[2])
local name, quiet = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+) (%d+)$')
-- Somebody may have put a key of another type there: it must keep nobody from being called.
local known = redis.pcall('GET', KEYS[2])
local to, by = string.match(type(known) == 'string' and known or '', '^(%d+) (%d+)$')
if not name or now <= latest or latest < tonumber(to or 0) then return { now, 0 } end

local function digits(number) return string.format('%.0f', number) end
-- A full Redis lets a script write that begins with what takes no memory: lib/context.lua.
redis.call('PERSIST', KEYS[1])
redis.call('SET', KEYS[1], name .. ' ' .. digits(math.max(quiet, now + ARGV[1])))
redis.call('SET', KEYS[2], digits(now) .. ' ' .. digits((by or 0) + now - latest), 'PX', HOUR_MS)
return { now, 1 }
