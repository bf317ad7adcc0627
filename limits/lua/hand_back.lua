--[[
hand_back: calls of one group are not made, or not to their end. They go back to the head of their lists.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  ids      of the calls, the first in line first; one a line
  unsent   1: certainly nothing was sent, so the start is given back; 0: it may have left
  base     as in take.lua
  room     as in take.lua; empty: others of the group end right behind, so nothing is taken yet

Uses     state: tally_call
         lanes: give_start_back
         flight: leads
         taking: end_together

Returns  {now, grants, why, ask, put}, as in take.lua; why, where nothing is taken yet: others, or
                                       freed: those were the last of their group
]]
return function(ids, unsent, base, room)
  return end_together(ids, base, room, function(id, record)
    if unsent == '1' then give_start_back(id, record) end
    if unsent ~= '1' and leads(id, record) then tally_call('handed_back', record.at) end
  end)
end
