--[[
epoch: does this Redis still know what it knew?

KEYS[1]  tracking:epoch   string "<name> <quiet until, µs>"
ARGV[1]  known    name that this worker knew, or empty
ARGV[2]  new      name to give when there is none
ARGV[3]  quiet    µs for which nobody starts when state was lost (one call time-out)

Returns  {now, name, quiet}   the name to work with, and the µs until which nobody starts
]]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local known, new, quiet_for = ARGV[1], ARGV[2], tonumber(ARGV[3])
local name, quiet = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+) (%d+)$')
if name and (known == '' or known == name) then return { now, name, quiet } end
quiet = tonumber(quiet or 0)
if known ~= '' then quiet = math.max(quiet, now + quiet_for) end
name = name or new
local until_text = string.format('%.0f', quiet)
-- A full Redis lets a script write that begins with what takes no memory: lib/context.lua.
redis.call('PERSIST', KEYS[1])
redis.call('SET', KEYS[1], name .. ' ' .. until_text)
return { now, name, until_text }
