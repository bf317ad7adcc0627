--[[
retry: a call failed and is to be repeated. The slot comes back, the start stays spent, and the line
may stop: see lib/brake.lua.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  id       of the call
  text     the setback, JSON:
           why       for operators
           charged   whether it is an attempt of the request
           spares    only if another number of the line was answered since the last try of this one
           most      attempts after which the request is dead; absent: they have no end
           delay     ms until the request is due, where the line does not stop
           after     numbers that must fail in a row for the line to stop; absent: nothing is held
                     against it
           first     ms of its first pause; each in a row is twice as long as the one before
           cap       ms of its longest pause; early: in its first hour, or absent
           named     ms for which it stops at once instead, or absent
           patience  ms: the line was not asked, but refused; after so long it ends who waits
           firm      an answer does not end the pause, and the request is charged no try
           unsent    certainly nothing was sent, so the start is given back
           mark      of the credentials that were refused, or absent
           attempt   of the call, for people: outcome, HTTP status or null, ms; absent: none was made
           fields    with which it is repeated; absent: as it stands
  base     as in take.lua
  room     as in hand_back.lua

Uses     state: tally_call
         record: read_record
         brake: answered_ms, note_failure, patience_ends
         lanes: give_start_back
         waiting: put_head, put_later
         flight: leads
         taking: end_unanswered

Returns  {now, grants, why, ask, put}  as in hand_back.lua
         {now, [], "used_up", 0, 0}    it was the last attempt, and nothing was changed: record the
                                       call as dead, then finish it
]]
-- Asked at the failure: what others were answered during the call counts as well.
local function is_charged(record, setback)
  if not setback.charged then return false end
  return not setback.spares or record.tried ~= nil and answered_ms() > record.tried
end

local function is_used_up(id, setback)
  local record = setback.most and read_record(INFLIGHT, id)
  return record and is_charged(record, setback) and (record.attempts or 0) + 1 >= setback.most
end

local function note_try(record, setback)
  if is_charged(record, setback) then record.attempts = (record.attempts or 0) + 1 end
  record.tries, record.tried = (record.tries or 0) + 1, math.max(now_ms, answered_ms())
  record.failing = record.failing or now_ms
end

local function note_call(record, at_ms, told)
  record.made = record.made or {}
  table.insert(record.made, { at_ms, unpack(told) })
  if #record.made > 9 then table.remove(record.made, 1) end
end

return function(id, text, base, room)
  local setback = cjson.decode(text)
  if is_used_up(id, setback) then return { now, {}, 'used_up', 0, 0 } end
  return end_unanswered(id, base, room, function(number, record)
    if setback.unsent then give_start_back(id, record) end
    if leads(id, record) and not setback.unsent then tally_call('repeated', record.at) end
    note_try(record, setback)
    record.fields = setback.fields or record.fields
    local granted = tonumber(record.granted)
    if setback.attempt then note_call(record, math.floor(granted / 1000), setback.attempt) end
    local stops_ms = setback.after and note_failure(record.lead or number, granted, setback)
    if setback.patience then record.refused = now_ms end
    -- First in line, the sweep finds it when it has to end.
    local before = patience_ends()
    if before and record.since <= before then return put_head(number, record) end
    -- While the line stops, other numbers are tried first: what fails with one may not with another. One
    -- that the courier always refuses must not stop them again at each end of a pause that it named.
    local own_ms = (not stops_ms or setback.firm and not setback.unsent) and setback.delay or 0
    put_later(number, record, now_ms + math.max(stops_ms or 0, own_ms))
  end)
end
