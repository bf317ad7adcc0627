--[[
inspect: names those of these lines that a sweep would change. Nearly always there is none, and a sweep
costs more than twice as many commands, and three times the worker's time.

KEYS[1…] wait_list:<line>, one for each line; the line's other keys are named from it, as in
         limits/keys.py
ARGV[1…] for each line three: µs that a lease lasts, µs that a lane may lie ahead, and whether the
         worker that asks could drain it, 1 or 0

Returns  {line, …}    to be swept; in doubt a line is among them
]]
local ASK_AT_LEAST_US = 30000000 -- as in lib/taking.lua
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

local function score(key, index)
  return tonumber(call('ZRANGE', key, index, index, 'WITHSCORES')[2])
end

-- Whether the line was refused for so long that those may have to end who wait.
local function ends_somebody(text)
  local brake = text and cjson.decode(text)
  return brake and brake.refused and now - brake.refused * 1000 >= brake.patience * 1000
end

-- What waits has a drainer and a flag, no retry is overdue, and nothing has to end.
local function is_drained(line)
  local names = { 'wait_drainer:' .. line, 'wait_list_activated:' .. line, 'calls_brake:' .. line }
  local found = call('MGET', unpack(names))
  if not found[1] or not found[2] or ends_somebody(found[3]) then return false end
  -- Named when the clock was ahead.
  if tonumber(string.match(found[1], ' (%d+)$')) > now + ASK_AT_LEAST_US then return false end
  local due_ms = score('wait_later:' .. line, 0)
  return not due_ms or due_ms * 1000 > now
end

-- Each call in flight has a lease, its own or that of the call that it rides with, and is known by its number.
local function has_leases(line)
  local ids, members, numbers, groups = {}, 0, 0, {}
  for _, field in ipairs(call('HKEYS', 'wait_inflight:' .. line)) do
    local first = string.sub(field, 1, 1)
    if first == '=' then
      numbers = numbers + 1
    elseif first == '#' then
      table.insert(groups, string.sub(field, 2))
    else
      members = members + 1
      local lead = string.match(field, '^(.*)~%d+$') or field
      if not ids[lead] then table.insert(ids, lead) end
      ids[lead] = true
    end
  end
  if numbers ~= members then return false end
  for _, group in ipairs(groups) do
    if not ids[group] then return false end
  end
  if #ids == 0 then return true end
  for _, ends in ipairs(call('ZMSCORE', 'calls_leases:' .. line, unpack(ids))) do
    if not ends then return false end
  end
  return true
end

-- Nothing has ended, and nothing lies further ahead than what could be granted now: it does where the
-- clock stepped back.
local function is_in_time(line, lease_us, lane_us)
  local leases, starts = 'calls_leases:' .. line, 'call_starts:' .. line
  local first = score(leases, 0)
  if first and (first <= now or score(leases, -1) > now + lease_us) then return false end
  return (score(starts, -1) or 0) <= now + lane_us
end

local function is_sound(line, lease_us, lane_us, is_known)
  -- Somebody may have corrected a record that was set aside.
  if call('EXISTS', 'wait_unreadable:' .. line) == 1 then return false end
  local places = call('LLEN', 'wait_list:' .. line) + call('LLEN', 'wait_list_automatic:' .. line)
    + call('ZCARD', 'wait_later:' .. line)
  if places > 0 then
    if is_known == '1' and not is_drained(line) then return false end
    -- Each call may have one that waits behind it; gaps are places, too. What more waits has no place.
    local calls = call('HLEN', 'wait_inflight:' .. line) / 2
    if call('HLEN', 'wait_requests:' .. line) > places + calls then return false end
  elseif call('EXISTS', 'wait_requests:' .. line) == 1
    or call('EXISTS', 'wait_inflight:' .. line) == 0 then
    return false
  end
  return has_leases(line) and is_in_time(line, tonumber(lease_us), tonumber(lane_us))
end

local found = {}
for i, list in ipairs(KEYS) do
  local line = string.sub(list, #'wait_list:' + 1)
  -- A key that is not what it should be must not keep the other lines from being looked at.
  local looked, sound = pcall(is_sound, line, ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i])
  if not looked or sound ~= true then table.insert(found, line) end
end
return found
