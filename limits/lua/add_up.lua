--[[
add_up: makes a longer span of time out of shorter ones, or of the same one of several slugs. Sums only
grow, so a span that is made again is right, also where its first parts are not kept any more.

KEYS[1]  the longer one, a hash of field → times
KEYS[2…] its parts
ARGV[1]  ms for which it is kept from now on; 0: further parts follow, so only their sums are returned
ARGV[2…] field, times, …: the sums of the parts before these

Returns  {now, field, times, …}   all that the longer one holds now, or the sums until now
]]
local time = redis.call('TIME')
local sums, key, kept = {}, KEYS[1], tonumber(ARGV[1])
for i = 2, #ARGV, 2 do sums[ARGV[i]] = tonumber(ARGV[i + 1]) end
for i = 2, #KEYS do
  local part = redis.call('HGETALL', KEYS[i])
  for j = 1, #part, 2 do sums[part[j]] = (sums[part[j]] or 0) + part[j + 1] end
end
local before = kept > 0 and redis.call('HGETALL', key) or {}
for i = 1, #before, 2 do sums[before[i]] = math.max(sums[before[i]] or 0, before[i + 1]) end
local reply = { time[1] * 1000000 + time[2] }
for field, times in pairs(sums) do
  if kept > 0 then redis.call('HSET', key, field, times) end
  table.insert(reply, field)
  table.insert(reply, times)
end
if kept > 0 and #reply > 1 then redis.call('PEXPIRE', key, kept) end
return reply
