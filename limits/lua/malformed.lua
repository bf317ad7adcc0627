--[[
malformed: counts jobs that were no requests. They are of no slug, so no step of a line counts them.

KEYS     named from the time: the spans of 10 s and of 10 minutes of all slugs, as in limits/keys.py; and
         tracking:stats:made, from when on there is anything to add up
ARGV[1]  how many

Returns  {now}
]]
local time = redis.call('TIME')
for key, span in pairs({ ['tracking:stats1:'] = { 10, 3600 }, ['tracking:stats2:'] = { 600, 604800 } }) do
  local name = key .. time[1] - time[1] % span[1]
  redis.call('HINCRBY', name, 'malformed', ARGV[1])
  redis.call('EXPIRE', name, span[2])
end
redis.call('SET', 'tracking:stats:made', time[1] - time[1] % 600 - 600, 'NX') -- as in lib/state.lua
return { time[1] * 1000000 + time[2] }
