--[[
cancel_where: of what waits for a number, end as CANCELLED what is old enough, or of one origin.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  number
  which    JSON: before (ms: what came until then) and origin (MANUAL or AUTOMATIC), each where it is
           asked for; todo, of the answer before

Uses     memory: ended_as
         record: end_where, nobody_left, read_record, write_record
         waiting: drop
         taking: at_rest

Returns  {now, ended, todo}  operations that ended now; todo: how many are still to be looked at, so send
                             it again
]]
return function(number, which)
  local asked, record = cjson.decode(which), read_record(REQUESTS, number)
  if not record then return { now, 0, 0 } end
  local before = ended_as('CANCELLED')
  -- Others look through the operations too, for those that expired: where they are is theirs to know.
  record.todo = asked.todo
  local looked = end_where(number, record, BY_HAND, function(at, _, _, auto)
    local origin = auto and 'AUTOMATIC' or 'MANUAL'
    return at <= (asked.before or at) and origin == (asked.origin or origin)
  end)
  local todo = record.todo or 0
  record.todo = nil
  if looked and nobody_left(record) then drop(number, record) else write_record(REQUESTS, number, record) end
  at_rest()
  return { now, ended_as('CANCELLED') - before, todo }
end
