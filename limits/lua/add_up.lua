--[[
add_up: makes a longer span of time out of shorter ones, or of the same one of several slugs. Sums only
grow, so a span that is made again is right, also where its first parts are not kept any more.

KEYS[1]  the longer one, a hash of field → times
KEYS[2…] its parts
ARGV[1]  ms for which it is kept from now on

Returns  {now, field, times, …}   all that the longer one holds now
]]
local time = redis.call('TIME')
local sums, key = {}, KEYS[1]
for i = 2, #KEYS do
  local part = redis.call('HGETALL', KEYS[i])
  for j = 1, #part, 2 do sums[part[j]] = (sums[part[j]] or 0) + part[j + 1] end
end
local before = redis.call('HGETALL', key)
for i = 1, #before, 2 do sums[before[i]] = math.max(sums[before[i]] or 0, before[i + 1]) end
local reply = { time[1] * 1000000 + time[2] }
for field, times in pairs(sums) do
  redis.call('HSET', key, field, times)
  table.insert(reply, field)
  table.insert(reply, times)
end
if #reply > 1 then redis.call('PEXPIRE', key, ARGV[1]) end
return reply
