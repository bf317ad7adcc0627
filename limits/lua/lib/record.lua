--[[
record: everybody who waits for one number, as one JSON value.

  since     ms   arrival of the oldest request
  anon      requests without an id, as one operation: id (key of the first job), last (key of the
            newest one), count, at (ms, the newest arrival), age (ms, the strictest max_age),
            till (ms, the last expiry)
  heads     ids of operations; each field #<id> of wait_requests links to the one before it
  ids       how many operations with an id there are
  job       key of the job that still stands in the tube for this record (granted directly)
  given, fields, auto, trace     of the request: later values fill gaps, the newest wins; fields of
            AUTOMATIC requests only fill gaps where there is a MANUAL one
  attempts, deaths               answers to be repeated, workers that vanished
  tills     some operation has an expiry, so all are looked at before a call
  kept      heads of operations that were looked at and stay, while more are to be looked at
  dying     too many workers vanished over it: a worker records it as dead, then finishes it
  forgotten its operations ended when the parcel was forgotten: its answer is nobody's
  state     nil: listed; "later": in wait_later; "behind": its number runs
  n, at, granted                 while in flight: number, start and grant in µs (as text)

An operation, field #<id> of wait_requests: n (number), at (ms), age (ms), till (ms), prev (id).
]]
local function read_record(key, field)
  local text = call('HGET', key, field)
  return text and cjson.decode(text) or nil
end

local function write_record(key, field, record)
  call('HSET', key, field, cjson.encode(record))
end

local function record_of(request)
  return { since = now_ms, auto = request.auto }
end

-- Whether an operation is carried by a record that waits or runs.
local function carried(operation)
  return operation and (call('HEXISTS', REQUESTS, operation.n) == 1
    or call('HEXISTS', INFLIGHT, '=' .. operation.n) == 1)
end

-- A re-check knows only what was stored when it was put: somebody may know better since.
local function take_fields(record, newer)
  for name, value in pairs(newer.fields or {}) do
    record.fields = record.fields or {}
    if record.auto or not newer.auto or not record.fields[name] then
      record.fields[name] = value
    end
  end
end

-- Returns false when this very request was in already: the same id, or the same job again.
local function join(record, request)
  if request.id then
    local field = '#' .. request.id
    if carried(read_record(REQUESTS, field)) then return false end
    local operation = { n = request.number, at = now_ms, age = request.age, till = request.till }
    record.heads = record.heads or {}
    operation.prev = record.heads[1]
    record.heads[1] = request.id
    record.ids = (record.ids or 0) + 1
    record.tills = record.tills or request.till ~= nil or nil
    write_record(REQUESTS, field, operation)
  elseif not record.anon then
    record.anon =
      { id = request.job, count = 1, at = now_ms, age = request.age, till = request.till }
  else
    local anon = record.anon
    if anon.id == request.job or anon.last == request.job then return false end
    anon.count, anon.at, anon.last = anon.count + 1, now_ms, request.job
    anon.age = math.min(anon.age or rules.max_age_ms, request.age or rules.max_age_ms)
    anon.till = anon.till and request.till and math.max(anon.till, request.till) or nil
  end
  if request.given then record.given = record.given or request.given end
  if request.trace then record.trace = request.trace end
  take_fields(record, request)
  return true
end

-- One record out of two for the same number; what is newer wins, what is older keeps its place.
local function merged(old, new)
  local heads = old.heads or {}
  for _, more in ipairs({ old.kept or {}, new.heads or {}, new.kept or {} }) do
    for _, head in ipairs(more) do table.insert(heads, head) end
  end
  old.heads, old.kept = #heads > 0 and heads or nil, nil
  old.ids = (old.ids or 0) + (old.kept_ids or 0) + (new.ids or 0) + (new.kept_ids or 0)
  old.ids, old.kept_ids = old.heads and old.ids or nil, nil
  old.tills = old.tills or new.tills
  if old.anon and new.anon then
    local anon = old.anon
    anon.count, anon.at = anon.count + new.anon.count, math.max(anon.at, new.anon.at)
    anon.last = new.anon.last or new.anon.id
    anon.age = math.min(anon.age or rules.max_age_ms, new.anon.age or rules.max_age_ms)
    anon.till = anon.till and new.anon.till and math.max(anon.till, new.anon.till) or nil
  else
    old.anon = old.anon or new.anon
  end
  take_fields(old, new)
  old.auto = old.auto and new.auto
  old.since = math.min(old.since, new.since)
  old.given = old.given or new.given
  old.trace = new.trace or old.trace
  return old
end
