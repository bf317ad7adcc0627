--[[
split: parts what versions before accounts were apart left of a line: one record of a number for all accounts.
Each account's part goes under NUMBER@account. Nothing is granted, and nobody ends.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  cursor   where to go on among the records that wait; 0 at first

Uses     memory: change_later, mark_busy
         state: move, note_account, open_among
         record: carry, cover, merged, read_record, record_in, rest_of, write_record
         waiting: list_of, push_first, unlist
         flight: go_on_without

Returns  {now, cursor, parted}   cursor: 0 when all were looked at; parted: how many were parted just now
]]
local function account_of(id)
  return string.match(id, '^([a-z0-9]+)/') or 'main'
end

local function name_of(number, account)
  return account == 'main' and number or number .. '@' .. account
end

local function is_shared(number, record)
  if record.account or record.accounts then return not string.find(number, '@', 1, true) end
  for _, id in ipairs(record.newest or {}) do
    if account_of(id) ~= 'main' and not string.find(number, '@', 1, true) then return true end
  end
  return false
end

-- An account's part of a record, with nobody on it yet.
local function part_of(record, account)
  local part = cjson.decode(cjson.encode(record))
  part.fields = record.fields
  if record.accounts then part.fields = record.accounts[account] or record.accounts.main end
  -- What failed with other fields is not held against it.
  if not (cover(part.fields, record.fields) and cover(record.fields, part.fields)) then
    part.attempts, part.deaths, part.tries, part.tried, part.failing, part.made = nil
  end
  part.newest, part.listed, part.ids, part.anon, part.recheck, part.todo = nil
  part.account, part.accounts, part.position, part.since = nil
  return part
end

-- Parts a record; `keeper`: of the account whose part stays in flight, where the record is. Of many operations all
-- are moved at once: while it is parted no worker works.
local function parts_of(number, record, keeper)
  local parts = {}
  local function part_for(account)
    if not parts[account] then
      parts[account] = part_of(record, account)
      if account == keeper then
        parts[account].n = name_of(number, account)
      else
        parts[account].n, parts[account].at, parts[account].granted = nil
        parts[account].job, parts[account].dying = nil
      end
    end
    return parts[account]
  end
  -- ids: oldest first.
  local function take(ids)
    local open = open_among(ids, number)
    for i, id in ipairs(ids) do
      local operation = open[i]
      if operation then
        local part = part_for(account_of(id))
        if id == record.recheck then part.recheck = id end
        carry(name_of(number, account_of(id)), part, id)
        part.ids = (part.ids or 0) + 1
        part.since = math.min(part.since or operation.at, operation.at)
        if operation.status == 'RUNNING' and not part.n then move(id, operation, 'WAITING') end
      end
    end
  end

  local listed, rest = record.listed and rest_of(number, record), OPERATIONS .. '!' .. number
  if listed and call('EXISTS', listed) == 1 then call('RENAME', listed, rest) end
  local ids = call('RPOP', rest, 1000) or {}
  while #ids > 0 do
    take(ids)
    ids = call('RPOP', rest, 1000) or {}
  end
  local inline = {}
  for _, id in ipairs(record.newest or {}) do table.insert(inline, 1, id) end
  take(inline)
  if record.anon then
    local part = part_for('main')
    part.anon = record.anon
    part.since = math.min(part.since or record.anon.at, record.anon.first or record.anon.at)
  end
  return parts
end

-- Has a part wait where its record did, or first in line where that ran or waited for a call.
local function put(name, part, due)
  note_account(name)
  local there = read_record(REQUESTS, name)
  if there then return write_record(REQUESTS, name, merged(name, part, there)) end
  if due then
    part.state = 'later'
    change_later('ZADD', LATER, due, name)
  else
    part.state, part.position = nil, push_first(list_of(part), name)
  end
  write_record(REQUESTS, name, part)
  mark_busy()
end

-- In the order of their names, which is the same each time.
local function each_by_name(parts)
  local accounts = {}
  for account in pairs(parts) do table.insert(accounts, account) end
  table.sort(accounts, function(a, b) return a > b end)
  return ipairs(accounts)
end

local function part_waiting(number, record)
  local due = record.state == 'later' and call('ZSCORE', LATER, number) or nil
  local parts = parts_of(number, record)
  if parts.main then
    parts.main.position = record.position
    write_record(REQUESTS, number, parts.main)
  else
    unlist(number, record)
    call('HDEL', REQUESTS, number)
  end
  for _, account in each_by_name(parts) do
    if account ~= 'main' then put(name_of(number, account), parts[account], due) end
  end
end

-- The call stays that of the account that it was made for, until its lease ends.
local function part_flying(id, record)
  local number, keeper = record.n, record.account or 'main'
  local parts = parts_of(number, record, keeper)
  if not parts[keeper] then parts[keeper] = part_of(record, keeper) end
  local own = parts[keeper]
  own.n, own.since = name_of(number, keeper), own.since or record.since
  write_record(INFLIGHT, id, own)
  if keeper ~= 'main' then
    if call('HGET', INFLIGHT, '=' .. number) == id then call('HDEL', INFLIGHT, '=' .. number) end
    call('HSET', INFLIGHT, '=' .. own.n, id)
    note_account(own.n)
  end
  for _, account in each_by_name(parts) do
    if account ~= keeper then put(name_of(number, account), parts[account]) end
  end
  if keeper ~= 'main' then go_on_without(number) end
end

return function(cursor)
  local parted = 0
  local reply = call('HSCAN', REQUESTS, cursor, 'COUNT', 100)
  for i = 1, #reply[2], 2 do
    local number = reply[2][i]
    local record = number ~= '!relist' and read_record(REQUESTS, number)
    if record and is_shared(number, record) then
      part_waiting(number, record)
      parted = parted + 1
    end
  end
  if reply[1] ~= '0' then return { now, reply[1], parted } end
  local calls = call('HGETALL', INFLIGHT)
  for i = 1, #calls, 2 do
    local id = calls[i]
    local record = not string.find(id, '^[=#]') and record_in(INFLIGHT, id, calls[i + 1])
    if record and not record.forgotten and is_shared(record.n, record) then
      part_flying(id, record)
      parted = parted + 1
    end
  end
  return { now, '0', parted }
end
