--[[
halve: a call for several numbers failed in a way that one of them may have caused. All go back to the head of
their lists, in two halves, each called without the other. Nobody is charged, and the line goes on.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  ids      of the calls, the first in line first; one a line
  base     as in take.lua
  room     as in hand_back.lua

Uses     state: tally_call
         flight: half_of, leads
         taking: end_together

Returns  {now, grants, why, ask, put}, as in hand_back.lua
]]
return function(ids, base, room)
  return end_together(ids, base, room, function(id, record, nth, all)
    if leads(id, record) then tally_call('repeated', record.at) end
    record.half = half_of(id, nth, all)
  end)
end
