--[[
retry: a call failed and is to be repeated later. The slot comes back, the start stays spent.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  id       of the call
  delay_ms from now
  base     as in take.lua
  room     as in take.lua

Uses     memory: count
         waiting: put_later
         taking: end_unanswered

Returns  {now, grants, why, ask, put}, as in take.lua
]]
return function(id, delay_ms, base, room)
  return end_unanswered(id, base, room, function(number, record)
    record.attempts = (record.attempts or 0) + 1
    count('retried')
    put_later(number, record, now_ms + tonumber(delay_ms))
  end)
end
