--[[
take: whose turn is it? Any number of processes may ask; each answer is safe by itself.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  base     new for every take: calls are named base:1, base:2, …
  room     how many calls this process has room for; 0 hands the line over to others; -1: none for
           now, but this process keeps the duty to ask
  claims   1: came with a job of the tube wait_list, 0: by its own clock

Uses     memory: drop_ended, expect_no_calm
         taking: turn

Returns  {now, grants, why, ask, put}
         grants    list of grants, see lib/flight.lua; behind a call's stand those of its riders
         why       what binds: rate, concurrency, paused, quiet, per_hour, per_day, filling (all wait for
                   company, or for their share of a quota), empty, room, full (somebody could start, and
                   the room was -1), more, epoch, rules
         ask       µs at which this process has to ask again, 0: it has not
         put       1: put a drain job
]]
return function(base, room, claims)
  drop_ended(LEASES)
  expect_no_calm() -- somebody waits, or this would not be asked
  local grants, why, ask, put = turn(base, room, claims == '1', false)
  return { now, grants, why, ask, put }
end
