--[[
revise: the rules of a line were changed, in MongoDB. From now on no step that grants goes by others. The
line's drainer, which looks when the rules of before let it, is asked for by the next sweep.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  revision  of the rules

Uses     context: note_revision
         memory: delete_signs

Returns  {now}
]]
return function(revision)
  note_revision(tonumber(revision))
  delete_signs(DRAINER)
  return { now }
end
