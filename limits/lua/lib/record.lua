--[[
record: everybody of one account who waits for one number, as one JSON value. Another account's number is
NUMBER@account, wherever a script has a number: so nothing of it is in a record, an answer or a list of others.

  since     ms   arrival of the oldest request
  anon      requests without an id, as one operation: id (key of the first job), last (key of the
            newest one), count (nil: 1), at (ms, the newest arrival; nil: since), age (ms, the strictest
            max_age), till (ms, the last expiry), auto (all of them are AUTOMATIC), put and resend_of of
            the first (lib/state.lua)
  newest    ids of the newest operations, at most 16, the newest first; always with `recheck`
  recheck   id of the newest AUTOMATIC operation that joined
  listed    how many ids more there are, in the list of `rest_of`, the newest first
  ids       how many operations with an id there are, but for those that were cancelled one by one
  job       key of the job that still stands in the tube for this record (granted directly)
  given, fields, auto, trace     of the request: later values fill gaps, the newest wins; fields of
            AUTOMATIC requests only fill gaps where there is a MANUAL one
  attempts, deaths               answers to be repeated, workers that vanished while it was called alone
  made      the last 9 calls that were made and failed: at (ms, the grant), outcome, HTTP status, ms
  tills     some operation has an expiry, so all are looked at before a call
  hurry     ms: from then on it waits for no company (lib/filling.lua), as it may expire soon
  todo      how many of the list are still to be looked at; those that stay go to its end
  dying     too many workers vanished over it: a worker records it as dead, then finishes it
  forgotten its operations ended when the parcel was forgotten: its answer is nobody's
  alone     it is called with no others: an answer to several left it out
  half      a label: it is called with those only that have the same one (half_of in lib/flight.lua)
  state     nil: listed; "later": in wait_later; "behind": its number runs
  position  while listed: of its number, see lib/waiting.lua
  n, at, granted                 while in flight: number, start and grant in µs (as text)
  quota     while in flight: by this number its account was charged (lib/quotas.lua)
  lead      while in flight in a group: id of the call whose start and lease it shares (lib/flight.lua)

Its operations are looked at and ended many at a time. Each ends once, because
lib/state.lua lets it; counters move with that transition and with nothing else.
]]
-- The record in `text`, of this field. One that cannot be read is set aside for a person, and everything
-- goes on without it: else it would stop all that its line does.
local function record_in(key, field, text)
  local record = text and decoded(text)
  if not text or record then return record or nil end
  call('HSET', UNREADABLE, key .. ' ' .. field, text)
  call('HDEL', key, field)
  return nil
end

local function read_record(key, field)
  return record_in(key, field, call('HGET', key, field))
end

-- The record of a number that waits. While all is calm there is none.
local function waiting_record(number)
  return not calm() and read_record(REQUESTS, number) or nil
end

local function write_record(key, field, record)
  call('HSET', key, field, cjson.encode(record))
end

-- Whether `fields` say all that `others` say.
local function cover(fields, others)
  for name, value in pairs(others or {}) do
    if not fields or fields[name] ~= value then return false end
  end
  return true
end

-- Whether an answer was asked with all fields that a request, or the record that it waits on, names; those of
-- a re-check are only what was stored. One that names accounts is of a version that shared it among them.
local function serves(answer, asked)
  return not answer.accounts and (asked.auto or cover(answer.fields, asked.fields))
end

-- newer: a request, or a record: its fields win. But a re-check knows only what was stored when it was put:
-- somebody may know better since.
local function take_fields(record, newer)
  if not newer.fields then return end
  record.fields = record.fields or {}
  for name, value in pairs(newer.fields) do
    if record.auto or not newer.auto or not record.fields[name] then record.fields[name] = value end
  end
end

-- Where the ids stand that have no place in the record. A number may wait while it runs: those of its
-- call have a list of their own.
local function rest_of(number, record)
  return OPERATIONS .. (record.n and '=' or '') .. number
end

-- Takes an operation on the record, as the newest of them.
local function carry(number, record, id)
  local INLINE = 16
  record.newest = record.newest or {}
  table.insert(record.newest, 1, id)
  if #record.newest <= INLINE then return end
  local last = #record.newest
  if record.newest[last] == record.recheck then last = last - 1 end
  call('LPUSH', rest_of(number, record), table.remove(record.newest, last))
  record.listed = (record.listed or 0) + 1
  record.todo = record.todo and record.todo + 1
end

local supersede
do
  local SUPERSEDED = {
    state = 'CANCELLED',
    output = '{"code":"superseded","message":"a newer re-check of its parcel took its place"}',
  }

  -- An AUTOMATIC operation takes the place of the older ones. Returns whether there was one. Its request, where it
  -- is given, takes their max_age over if that is stricter: of two it is still the answer that both wanted.
  function supersede(number, record, request)
    local newest, left = record.newest or {}, {}
    local open = open_among(newest, number)
    for i, each in ipairs(newest) do
      local older = open[i]
      if older and older.auto then
        if request and older.age then request.age = math.min(request.age or rules.max_age_ms, older.age) end
        move(each, older, 'CANCELLED', SUPERSEDED)
      else
        table.insert(left, each)
      end
    end
    if #left == #newest then return false end
    record.ids = record.ids - (#newest - #left)
    record.newest = #left > 0 and left or nil
    return true
  end
end

-- Joins two lists, whose newest stand first: `from` holds the older ones. The shorter one is moved: those of a
-- call may be a million, and those who came while it ran are mostly few, or the other way round. A thousand at
-- once: Lua's stack holds no more than a few thousand.
local function move_rest(from, to)
  local older, newer = call('LLEN', from), call('LLEN', to)
  if older == 0 then return end
  local is_short = older <= newer
  while math.min(older, newer) > 0 do
    if is_short then
      call('RPUSH', to, unpack(call('LPOP', from, 1000)))
      older = older - 1000
    else
      call('LPUSH', from, unpack(call('RPOP', to, 1000)))
      newer = newer - 1000
    end
  end
  if not is_short then call('RENAME', from, to) end
end

-- ms of the newest of a record's requests without an id.
local function came_at(record)
  return record.anon.at or record.since
end

-- Every change of what tells since when a number waits.
local function set_since(record, ms)
  if record.anon then record.anon.at = came_at(record) end
  record.since = ms
end

-- Takes a new request on the record, and on nothing when the same job is there again. Its operation is
-- the caller's to move.
local function join(record, request)
  if request.id then
    if request.auto then record.recheck = request.id end
    carry(request.number, record, request.id)
    record.ids = (record.ids or 0) + 1
    record.tills = record.tills or request.till ~= nil or nil
  elseif not record.anon then
    local anon = { id = request.job, auto = request.auto }
    if record.since ~= now_ms then anon.at = now_ms end
    if request.age or request.till or request.put or request.resend_of then
      anon.age, anon.till, anon.put, anon.resend_of = request.age, request.till, request.put, request.resend_of
    end
    record.anon = anon
  else
    local anon = record.anon
    if anon.id == request.job or anon.last == request.job then return end
    anon.count, anon.at, anon.last = (anon.count or 1) + 1, now_ms, request.job
    anon.age = math.min(anon.age or rules.max_age_ms, request.age or rules.max_age_ms)
    anon.till = anon.till and request.till and math.max(anon.till, request.till) or nil
    anon.auto = anon.auto and request.auto
  end
  if request.given then record.given = record.given or request.given end
  if request.trace then record.trace = request.trace end
  if request.alone then record.alone = true end
  take_fields(record, request)
end

-- One record out of two for the same number; what is newer wins, what is older keeps its place. The
-- lists of both are one already.
local function merged(number, old, new)
  local listed = (old.listed or 0) + (new.listed or 0)
  old.listed, old.todo = listed > 0 and listed or nil, nil
  local again = old.recheck and new.recheck
  if again and open_among({ again }, number)[1] then supersede(number, old) end
  old.recheck = new.recheck or old.recheck
  for i = #(new.newest or {}), 1, -1 do carry(number, old, new.newest[i]) end
  local ids = (old.ids or 0) + (new.ids or 0)
  old.ids = ids > 0 and ids or nil
  old.tills = old.tills or new.tills
  local since = math.min(old.since, new.since)
  set_since(old, since)
  set_since(new, since)
  if old.anon and new.anon then
    local anon = old.anon
    anon.count = (anon.count or 1) + (new.anon.count or 1)
    anon.at = math.max(anon.at, new.anon.at)
    anon.last = new.anon.last or new.anon.id
    anon.age = math.min(anon.age or rules.max_age_ms, new.anon.age or rules.max_age_ms)
    anon.till = anon.till and new.anon.till and math.max(anon.till, new.anon.till) or nil
    anon.auto = anon.auto and new.anon.auto
  else
    old.anon = old.anon or new.anon
  end
  take_fields(old, new)
  old.auto = old.auto and new.auto
  old.given = old.given or new.given
  old.trace = new.trace or old.trace
  old.alone = old.alone or new.alone
  return old
end

local AT_ONCE = 100

-- An answer as it was said: its output, a tab, and the rest. Versions before wrote it as one JSON object.
local function answer_in(text)
  local tab = string.find(text, '\t', 1, true)
  local answer = decoded(tab and string.sub(text, tab + 1) or text)
  if answer and tab then answer.output = string.sub(text, 1, tab - 1) end
  return answer
end

-- The answer in `text`, if it is at most `age` ms old (nil: the default); one of the future is of before a
-- step back of the clock.
local function fresh(text, age)
  local answer = text and text ~= '' and answer_in(text)
  local old = answer and now_ms - answer.observed
  local is_young = old and old >= 0 and old < (age or rules.max_age_ms)
  return is_young and answer or nil
end

-- Ends requests without an id, which are one operation.
local function end_anonymous(number, record, verdict)
  local operation, id = anonymous_operation(number, record)
  move(id, operation, verdict.state, verdict)
  if record.anon.count then tally('merged', record.anon.count - 1) end
end

local function everyone() return true end

local function nobody_left(record)
  return not record.anon and not record.newest and not record.listed
end

local end_where
do
  -- Returns those of `ids` that do not end now.
  local function left_of(ids, number, verdict, ends)
    local left, open = {}, open_among(ids, number)
    for i, id in ipairs(ids) do
      local operation = open[i]
      if operation and ends(operation.at, operation.age, operation.till, operation.auto) then
        move(id, operation, verdict.state, verdict)
      elseif operation then
        table.insert(left, id)
      end
    end
    return left
  end

  -- The operations that have ids of their producers'. Returns whether all were looked at.
  local function end_named(number, record, verdict, ends)
    local rest, listed = rest_of(number, record), record.listed or 0
    local todo = ends ~= everyone and record.todo or listed
    local inline = record.newest or {}
    local left = left_of(inline, number, verdict, ends)
    record.newest = #left > 0 and left or nil
    local few = AT_ONCE / 5
    local most = math.max(few, math.min(AT_ONCE, math.floor(budget.left))) - #inline
    while todo > 0 and most > 0 do
      local ids = call('LPOP', rest, math.min(todo, most)) or {}
      if #ids == 0 then listed, todo = 0, 0 end -- somebody has deleted the list
      listed, todo, most = listed - #ids, todo - #ids, most - #ids
      left = left_of(ids, number, verdict, ends)
      if #left > 0 then call('RPUSH', rest, unpack(left)) end
      listed = listed + #left
    end
    record.listed = listed > 0 and listed or nil
    record.todo = ends ~= everyone and todo > 0 and todo or nil
    if todo > 0 then return false end
    record.ids = #(record.newest or {}) + listed
    return true
  end

  -- Ends operations that `ends(at, age, till, auto)` names, after a look at AT_ONCE at most, and at fewer late
  -- in a script; the others stay on the record, but for those that ended otherwise (cancelled).
  -- Returns true when every operation was looked at; else call again with the same record.
  function end_where(number, record, verdict, ends)
    local named = record.newest or record.listed
    if named and not end_named(number, record, verdict, ends) then return false end
    local counted = record.ids or record.todo
    if counted and (not named or record.ids == 0) then record.ids, record.todo = nil, nil end
    local anon = record.anon
    if anon and ends(came_at(record), anon.age, anon.till, anon.auto) then
      end_anonymous(number, record, verdict)
      record.anon = nil
    end
    return true
  end
end

-- The ids of at most AT_ONCE operations that their producers named, newest first.
local function ids_of(number, record)
  local ids = { unpack(record.newest or {}) }
  if not record.listed then return ids end
  for _, id in ipairs(call('LRANGE', rest_of(number, record), 0, AT_ONCE - #ids - 1)) do
    table.insert(ids, id)
  end
  return ids
end

-- Reads the named operations of several numbers in one command. members: {number, record} of each.
local function note_operations(members)
  local ids = {}
  for _, each in ipairs(rules.operations and members or {}) do
    for _, id in ipairs(each[2].newest or {}) do table.insert(ids, id) end
  end
  note_statuses(ids)
end

-- The operations of a record run from now on: those of ids_of, and that of requests without an id.
local function run_all(number, record)
  local verdict = { started = now_ms }
  if record.ids then
    local ids = ids_of(number, record)
    for i, operation in pairs(open_among(ids, number)) do move(ids[i], operation, 'RUNNING', verdict) end
  end
  if not record.anon then return end
  local operation, id = anonymous_operation(number, record)
  operation.status = nil
  move(id, operation, 'RUNNING', verdict)
end

-- The same operations wait again. Of many, some had not begun to run.
local function wait_again(record)
  local number = record.n
  local ids = ids_of(number, record)
  for i, operation in pairs(open_among(ids, number)) do
    if operation.status == 'RUNNING' then move(ids[i], operation, 'WAITING') end
  end
  if not record.anon then return end
  local operation, id = anonymous_operation(number, record)
  if operation.status then move(id, operation, 'WAITING') end
end

local BY_HAND = { state = 'CANCELLED', output = '{"code":"cancelled","message":"cancelled by hand"}' }

local EXPIRED = {
  state = 'CANCELLED',
  output = '{"code":"expired","message":"its time was over before a call could be made"}',
}
