--[[
ask_alone: an answer to several numbers left this one out. It goes to the head of its list, and is called with no
others from now on. Nobody is charged.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  id       of the call
  base     as in take.lua
  room     as in hand_back.lua

Uses     state: tally_call
         flight: leads
         taking: end_together

Returns  {now, grants, why, ask, put}, as in hand_back.lua
]]
return function(id, base, room)
  return end_together(id, base, room, function(_, record)
    if leads(id, record) then tally_call('repeated', record.at) end
    record.alone = true
  end)
end
