--[[
operations: those that a record carries, looked at and ended many at a time. Each ends once, because
lib/state.lua lets it; counters move with that transition and with nothing else.
]]
local AT_ONCE = 100

-- The answer in `text`, if it is at most `age` ms old (nil: the default); one of the future is of before a
-- step back of the clock.
local function fresh(text, age)
  local answer = text and text ~= '' and decoded(text)
  local old = answer and now_ms - answer.observed
  local is_young = old and old >= 0 and old < (age or rules.max_age_ms)
  return is_young and answer or nil
end

-- Ends requests without an id, which are one operation. Returns false when it had ended before: the job of
-- one of them came again.
local function end_anonymous(number, anon, verdict)
  local operation, id = anonymous_operation(number, anon)
  local ended = operation and move(id, operation, verdict.state, verdict)
  if ended and anon.count then tally('merged', anon.count - 1) end
  return ended
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
    if not named or record.ids == 0 then record.ids, record.todo = nil, nil end
    local anon = record.anon
    if anon and ends(anon.at, anon.age, anon.till, anon.auto) then
      end_anonymous(number, anon, verdict)
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

-- The operations of a record run from now on: those of ids_of, and that of requests without an id.
local function run_all(number, record)
  local verdict = { started = now_ms }
  if record.ids then
    local ids = ids_of(number, record)
    for i, operation in pairs(open_among(ids, number)) do move(ids[i], operation, 'RUNNING', verdict) end
  end
  if not record.anon then return end
  local operation, id = anonymous_operation(number, record.anon)
  if operation then move(id, operation, 'RUNNING', verdict) end
end

-- The same operations wait again. Of many, some had not begun to run.
local function wait_again(record)
  local number = record.n
  local ids = ids_of(number, record)
  for i, operation in pairs(open_among(ids, number)) do
    if operation.status == 'RUNNING' then move(ids[i], operation, 'WAITING') end
  end
  if not record.anon then return end
  local operation, id = anonymous_operation(number, record.anon)
  if operation and operation.status then move(id, operation, 'WAITING') end
end

local BY_HAND = { state = 'CANCELLED', output = '{"code":"cancelled","message":"cancelled by hand"}' }

local EXPIRED = {
  state = 'CANCELLED',
  output = '{"code":"expired","message":"its time was over before a call could be made"}',
}
