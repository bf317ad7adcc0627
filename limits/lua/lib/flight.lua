--[[
flight: calls that run. wait_inflight holds call id → record and =number → call id, so that a
number never runs twice at once and the record outlives the worker.
]]
local function running(number)
  return call('HGET', INFLIGHT, '=' .. number)
end

-- Returns {call id, start in µs, grant in µs, record} for the reply.
local function grant(id, number, record, at, lane)
  start(id, at, lane)
  call('ZADD', LEASES, now + rules.lease_us, id)
  call('PEXPIRE', LEASES, math.ceil(rules.lease_us / 1000))
  call('SET', CALLS, call('ZCARD', LEASES), 'PX', 60000)
  call('SET', SECOND, call('ZCARD', STARTS), 'PX', 1000)
  call('SADD', SLUGS, rules.slug)
  call('HINCRBY', COUNTS, 'calls', 1)
  record.state, record.n, record.at, record.granted = nil, number, digits(at), digits(now)
  local text = cjson.encode(record)
  call('HSET', INFLIGHT, id, text, '=' .. number, id)
  local ids = ids_of(record)
  for _, operation in ipairs(ids) do
    if not ENDED[state_of(operation)] then
      write_status(operation, 'RUNNING', { started = now_ms }, STATUS_KEEP_MS)
    end
  end
  return { id, digits(at), digits(now), text, cjson.encode({ ids = ids }) }
end

-- A grant that was made before: the reply was lost and the script is sent again.
local function granted_before(id)
  local text = call('HGET', INFLIGHT, id)
  if not text then return nil end
  local record = cjson.decode(text)
  return { id, record.at, record.granted, text, cjson.encode({ ids = ids_of(record) }) }
end

-- Takes a call out of flight. Returns its number and record, or nil when it is not ours (any more).
local function land(id)
  call('ZREM', LEASES, id)
  local record = read_record(INFLIGHT, id)
  if not record then return nil end
  call('HDEL', INFLIGHT, id)
  if running(record.n) == id then call('HDEL', INFLIGHT, '=' .. record.n) end
  return record.n, record
end

-- Waiting again: `show` reads WAITING from the hash, so RUNNING must not stand in its way.
local function wait_again(record)
  for _, id in ipairs(ids_of(record)) do
    if state_of(id) == 'RUNNING' then call('DEL', STATUS .. id) end
  end
end
