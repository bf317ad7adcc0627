--[[
judge: one process at a time judges the calls that were measured. Each question makes it the judge for so much longer,
or takes over where nobody is, and gives it what was measured since its last one. Repeating it changes nothing.

KEYS[1]  tracking:planner:#judge  who judges
KEYS[2]  tracking:epoch           "<name> <quiet until, µs>"
KEYS[3]  tracking:rules           the newest revision of the rules
KEYS[4]  tracking:measured        the stream of sends and ends
ARGV[1]  who asks
ARGV[2]  ms for which it judges from now on
ARGV[3]  from which entry of the stream on, as XRANGE takes it: "-", "(<id>", "<ms>"; "+" for none

Returns  {now, "judge", epoch, revision, entries}  epoch and revision are "" where there is none; entries: as XRANGE
                                                   gives them
         {now, "wait"}                             another one judges
]]
-- A full Redis lets a script write that begins with a deletion: lib/context.lua.
redis.call('DEL', 'tracking:nothing')
-- A key that is no string is held by nobody whom we know.
local holder = redis.pcall('GET', KEYS[1])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if holder and holder ~= ARGV[1] then return {now, 'wait'} end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local name = redis.call('MGET', KEYS[2], KEYS[3])
return {now, 'judge', name[1] or '', name[2] or '', redis.call('XRANGE', KEYS[4], ARGV[3], '+')}
