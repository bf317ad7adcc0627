--[[
epoch: does this Redis still know what it knew?

It does not when the name of the epoch is gone. It may not when another server has taken over, where
there are replicas: their copies lag behind. A promotion shows in INFO: another run_id, or another
second replication id, which a server that is promoted keeps of the primary before it.

KEYS[1]  tracking:epoch    string "<name> <quiet until, µs>"
KEYS[2]  tracking:server   string "<run_id> <second replication id> <replicated> <epoch>/<count>": who
         wrote here last; whether it was ever seen with replicas (1); the epoch that a takeover began,
         or -; how often it was asked so. Versions before knew four words and no count: they write back
         the fourth as they found it
KEYS[3]  tracking:rules    the newest revision of the rules
ARGV[1]  known    name that this worker knew, or empty
ARGV[2]  new      name to give when there is none
ARGV[3]  quiet    µs for which nobody starts when state was lost (one call time-out)
ARGV[4]  watched  1: Sentinels are configured, 0: they are not
ARGV[5]  seen     the highest count that this worker was answered; a lower one here is that of an older copy

Returns  {now, name, quiet, why, run_id, confirms, count, revision}
         name      to work with
         quiet     µs until which nobody starts
         why       the epoch began because Redis was "new", or another one "replaced" it
         run_id    of the server, or - where this user must not read it
         confirms  how many replicas make a majority of the servers that are here; 0: it takes writes
                   without any
         count     how often this was asked, this time with it
         revision  of KEYS[3]
]]
local function info(section)
  local text = redis.pcall('INFO', section)
  return type(text) == 'string' and text or ''
end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local known, new, quiet_for = ARGV[1], ARGV[2], tonumber(ARGV[3])
local name, quiet = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+) (%d+)$')
quiet = tonumber(quiet or 0)

local told = info('server') .. info('replication')
local run_id = string.match(told, 'run_id:(%x+)') or '-'
local before = string.match(told, 'master_replid2:(%x*[1-9a-f]%x*)') or '-'
local written = redis.call('GET', KEYS[2]) or ''
local last_run_id, last_before, seen, begun, count = string.match(written, '^(%S+) (%S+) ([01]) ([^ /]+)[ /]?(%d*)$')
count = tonumber(count) or 0
local replicas = tonumber(string.match(told, 'connected_slaves:(%d+)') or 0)
local promoted = string.match(told, 'second_repl_offset:(%d+)')
local replicated = ARGV[4] == '1' or seen == '1' or replicas > 0 or promoted ~= nil

local another = last_run_id ~= run_id or before ~= '-' and before ~= last_before
local is_old = known ~= '' and known ~= name
if name and replicated and another then
  name, begun, is_old = new, new, true
elseif name and name == known and count < (tonumber(ARGV[5]) or 0) then
  name, is_old = new, true
end
count = math.max(count, tonumber(ARGV[5]) or 0) + 1
if is_old then quiet = math.max(quiet, now + quiet_for) end
name = name or new
local until_text = string.format('%.0f', quiet)
-- A full Redis lets a script write that begins with what takes no memory: lib/context.lua.
redis.call('PERSIST', KEYS[1])
redis.call('SET', KEYS[1], name .. ' ' .. until_text)
redis.call('SET', KEYS[2],
  string.format('%s %s %d %s/%d', run_id, before, replicated and 1 or 0, begun or '-', count))
local why = begun == name and 'replaced' or 'new'
local confirms = 0
if string.find(told, 'min_slaves_good_slaves:', 1, true) then
  confirms = math.max(1, math.floor((replicas + 1) / 2))
end
local revision = tonumber(redis.call('GET', KEYS[3]) or 0) or 0
return { now, name, until_text, why, run_id, confirms, count, revision }
