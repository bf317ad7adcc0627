--[[
ration: a worker has read the accounts' quotas of calls a day, or somebody has changed one: they hold from now on.
What was read with an older revision of the rules changes nothing. Repeating it changes nothing.

KEYS[1]  tracking:account_quotas   hash, see lib/quotas.lua
KEYS[2]  tracking:rules            the newest revision
ARGV[1]  revision                  of the rules with which they were read
ARGV[2…] account, calls a day, …   of all accounts that have such a quota

Returns  {now, held}   1: they hold; 0: newer ones do
]]
local time = redis.call('TIME')
local now, revision, key = time[1] * 1000000 + time[2], tonumber(ARGV[1]), KEYS[1]
local newest = tonumber(redis.call('GET', KEYS[2]) or 0)
if revision < newest then return { now, 0 } end
-- A full Redis lets a script write that begins with a deletion: lib/context.lua.
redis.call('DEL', key)
if #ARGV > 1 then redis.call('HSET', key, '!', ARGV[1]) end
-- Lua's stack holds no more than a few thousand.
local AT_ONCE = 1000
for i = 2, #ARGV, AT_ONCE do redis.call('HSET', key, unpack(ARGV, i, math.min(i + AT_ONCE - 1, #ARGV))) end
if revision > newest then redis.call('SET', KEYS[2], ARGV[1]) end
return { now, 1 }
