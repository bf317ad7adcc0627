--[[
survey: names the lines that have work, in one cheap script. It also notes that the worker that asks
lives, and which lines it knows, because a script of its own for that would be as dear as the rest.

KEYS[1]  wait_slugs   set of lines with something waiting or in flight
KEYS[2]  tracking:workers   zset of workers that live: who → until, ms
KEYS[3]  tracking:couriers  zset of the lines that some of these know: line → until, ms; and of all that
         one script noted together: = and their digest → until, ms
ARGV[1]  the lines that this worker knows, with a blank between two; a number pushed by hand is in a
         list but not in the set. Their lists are named from them, as in limits/keys.py
ARGV[2]  who asks, as in limits/workers.py; absent: nobody who is to be noted
ARGV[3]  ms for which it is taken to live from now on; 0: it stops

Returns  {line, …}    each at most once
]]
local KEPT = 0.7 -- of ARGV[3]: two looks, 5 s apart, fit into what is left
local known = {}
for line in string.gmatch(ARGV[1], '%S+') do table.insert(known, line) end

-- Most looks write nothing: the same lines were noted by the look before, or by another process.
local function note_known(now_ms, lives_ms)
  local together = '=' .. redis.sha1hex(ARGV[1])
  local noted_ms = redis.pcall('ZSCORE', KEYS[3], together)
  local left_ms = type(noted_ms) == 'string' and noted_ms - now_ms or 0
  -- What lies further ahead was noted before Redis' clock stepped back.
  if left_ms >= KEPT * lives_ms and left_ms <= lives_ms then return end
  local entries = { now_ms + lives_ms, together }
  for _, line in ipairs(known) do
    table.insert(entries, now_ms + lives_ms)
    table.insert(entries, line)
  end
  redis.pcall('ZREMRANGEBYSCORE', KEYS[3], '-inf', now_ms)
  redis.pcall('ZADD', KEYS[3], unpack(entries))
  redis.pcall('PEXPIRE', KEYS[3], lives_ms)
end

if ARGV[2] then
  local time = redis.call('TIME')
  local now_ms, lives_ms = time[1] * 1000 + math.floor(time[2] / 1000), tonumber(ARGV[3])
  -- Where it cannot be written, the lines are looked at all the same.
  -- A full Redis lets a script write that begins with a deletion: lib/context.lua.
  redis.pcall('ZREM', KEYS[2], ARGV[2])
  redis.pcall('ZADD', KEYS[2], now_ms + lives_ms, ARGV[2])
  redis.pcall('ZREMRANGEBYSCORE', KEYS[2], '-inf', now_ms)
  if lives_ms > 0 then redis.pcall('PEXPIRE', KEYS[2], lives_ms) end
  if #known > 0 then note_known(now_ms, lives_ms) end
end

-- `check` names a key of another type; meanwhile those that the worker knows are looked at.
local found, lines = {}, redis.pcall('SMEMBERS', KEYS[1])
if lines.err then lines = {} end
for _, line in ipairs(lines) do found[line] = true end
local idle, lists = {}, {}
for _, line in ipairs(known) do
  if not found[line] then
    table.insert(idle, line)
    table.insert(lists, 'wait_list:' .. line)
    table.insert(lists, 'wait_list_automatic:' .. line)
  end
end
-- Nearly always none of them is there.
if #lists > 0 and redis.call('EXISTS', unpack(lists)) > 0 then
  for i, line in ipairs(idle) do
    if redis.call('EXISTS', lists[2 * i - 1], lists[2 * i]) > 0 then table.insert(lines, line) end
  end
end
return lines
