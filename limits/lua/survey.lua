--[[
survey: names the lines that have work, in one cheap script. It also notes that the worker that asks
lives, and which lines it knows, because a script of its own for that would be as dear as the rest.

KEYS[1]  wait_slugs   set of lines with something waiting or in flight
KEYS[2]  tracking:workers   zset of workers that live: who → until, ms
KEYS[3]  tracking:couriers  zset of the lines that some of these know: line → until, ms
ARGV[1]  the lines that this worker knows, with a blank between two; a number pushed by hand is in a
         list but not in the set. Their lists are named from them, as in limits/keys.py
ARGV[2]  who asks, as in limits/workers.py; absent: nobody who is to be noted
ARGV[3]  ms for which it is taken to live from now on; 0: it stops

Returns  {line, …}    each at most once
]]
if ARGV[2] then
  local time = redis.call('TIME')
  local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
  -- Where it cannot be written, the lines are looked at all the same.
  -- A full Redis lets a script write that begins with a deletion: lib/context.lua.
  redis.pcall('ZREM', KEYS[2], ARGV[2])
  redis.pcall('ZADD', KEYS[2], now_ms + ARGV[3], ARGV[2])
  redis.pcall('ZREMRANGEBYSCORE', KEYS[2], '-inf', now_ms)
  if ARGV[3] ~= '0' then redis.pcall('PEXPIRE', KEYS[2], ARGV[3]) end
  local known = {}
  for name in string.gmatch(ARGV[1], '%S+') do
    table.insert(known, now_ms + ARGV[3])
    table.insert(known, name)
  end
  if #known > 0 then
    redis.pcall('ZADD', KEYS[3], unpack(known))
    redis.pcall('ZREMRANGEBYSCORE', KEYS[3], '-inf', now_ms)
    redis.pcall('PEXPIRE', KEYS[3], ARGV[3])
  end
end

-- `check` names a key of another type; meanwhile those that the worker knows are looked at.
local found, lines = {}, redis.pcall('SMEMBERS', KEYS[1])
if lines.err then lines = {} end
for _, line in ipairs(lines) do found[line] = true end
for line in string.gmatch(ARGV[1], '%S+') do
  if not found[line]
    and redis.call('EXISTS', 'wait_list:' .. line, 'wait_list_automatic:' .. line) > 0 then
    table.insert(lines, line)
  end
end
return lines
