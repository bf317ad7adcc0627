--[[
retry: a call failed and is to be repeated later. The slot comes back, the start stays spent.

KEYS     of the slug, see lib/slug.lua
ARGV[1]  rules     see lib/slug.lua
ARGV[2]  reports   see lib/slug.lua
ARGV[3]  call id
ARGV[4]  delay     ms from now
ARGV[5]  base      as in take.lua
ARGV[6]  room      as in take.lua

Returns  {now, grants, why, ask, put}, as in take.lua
]]
reap()
local number, record = land_to_wait(ARGV[3])
if number then
  record.attempts = (record.attempts or 0) + 1
  count('retried')
  wait_again(record)
  put_later(number, record, now_ms + tonumber(ARGV[4]))
end
local grants, why, ask, put = turn(ARGV[5], ARGV[6], false)
return { now, grants, why, ask, put }
