--[[
archive: one worker at a time is given the operations that ended, and writes them to MongoDB. What it
reports as written leaves the set, and only then its status gets an end. Idempotent: who vanishes before
the report leaves all to the next one, who writes the same once more.

KEYS[1]  tracking:to_archive     zset of operations that ended: id → when, ms
KEYS[2]  tracking:archive_lock1  who is given work
KEYS[3]  tracking:archive_lock2  who may report; it lives longer: in this grace nobody is given work
KEYS[4]  tracking:events         stream of ends; those of more than an hour ago go
ARGV[1]  who asks
ARGV[2]  operations that it takes at most
ARGV[3]  ms for which the first lock lives
ARGV[4]  ms for which the second one lives
ARGV[5…] reported, three values each: id, when it ended (ms, as it was given), ms until which its status
         is to be known; empty: that is not the status of an end, so leave it alone

Returns  {"work", id, when, …}   what is to be written, the oldest first, two values each; who asked reads the
                                 statuses. Without any, all are archived
         {"wait", ms}            another one has the work, or had: ask again then
]]
local STATUS, EVENTS_SECONDS = 'tracking:status:', 3600
local set, lock1, lock2 = KEYS[1], KEYS[2], KEYS[3]
local who, most = ARGV[1], ARGV[2]

-- One that has ended once more since it was given has another score, and is given again.
local function take_reports()
  local ids = {}
  for i = 5, #ARGV, 3 do ids[#ids + 1] = ARGV[i] end
  if #ids == 0 then return end
  local scores, archived = redis.call('ZMSCORE', set, unpack(ids)), {}
  for i, id in ipairs(ids) do
    local ended, till = ARGV[3 * i + 3], ARGV[3 * i + 4]
    if scores[i] == ended then
      archived[#archived + 1] = id
      if till ~= '' then redis.call('PEXPIREAT', STATUS .. id, till) end
    end
  end
  if #archived > 0 then redis.call('ZREM', set, unpack(archived)) end
end

-- A full Redis lets a script write that begins with a deletion: lib/context.lua.
redis.call('ZREM', set, '')
local works, reports = redis.call('GET', lock1), redis.call('GET', lock2)
if reports == who then take_reports() end
if (works or reports) and works ~= who then
  if reports ~= who then
    return { 'wait', math.max(redis.call('PTTL', lock1), redis.call('PTTL', lock2), 1) }
  end
  -- It was slower than its lock: another one may be faster.
  redis.call('DEL', lock2)
  return { 'wait', tonumber(ARGV[3]) }
end
redis.call('SET', lock1, who, 'PX', ARGV[3])
redis.call('SET', lock2, who, 'PX', ARGV[4])
redis.call('XTRIM', KEYS[4], 'MINID', '~', (redis.call('TIME')[1] - EVENTS_SECONDS) * 1000)
return { 'work', unpack(redis.call('ZRANGE', set, 0, most - 1, 'WITHSCORES')) }
