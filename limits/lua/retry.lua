--[[
retry: a call failed and is to be repeated later. The slot comes back, the start stays spent.

KEYS     of the slug, see lib/slug.lua
ARGV     behind the reports, see lib/batch.lua:
  id       of the call
  delay_ms from now
  base     as in take.lua
  room     as in take.lua

Returns  {now, grants, why, ask, put}, as in take.lua
]]
return function(id, delay_ms, base, room)
  reap()
  local number, record = land_to_wait(id)
  if number then
    record.attempts = (record.attempts or 0) + 1
    count('retried')
    wait_again(record)
    put_later(number, record, now_ms + tonumber(delay_ms))
  end
  local grants, why, ask, put = turn(base, room, false, number ~= nil)
  return { now, grants, why, ask, put }
end
