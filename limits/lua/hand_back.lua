--[[
hand_back: a call is not made, or not to its end. It goes back to the head of the list.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  id       of the call
  unsent   1: certainly nothing was sent, so the start is given back; 0: it may have left
  base     as in take.lua
  room     as in take.lua

Uses     state: tally_call
         lanes: give_start_back
         waiting: put_head
         flight: leads
         taking: end_unanswered

Returns  {now, grants, why, ask, put}, as in take.lua
]]
return function(id, unsent, base, room)
  return end_unanswered(id, base, room, function(number, record)
    if unsent == '1' then give_start_back(id, record) end
    if unsent ~= '1' and leads(id, record) then tally_call('handed_back', record.at) end
    put_head(number, record)
  end)
end
