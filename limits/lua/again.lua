--[[
again: leave for one further HTTP request of a call that runs. The slot is held, only a start is due.

KEYS     of the slug, see lib/slug.lua
ARGV[1]  rules     see lib/slug.lua
ARGV[2]  reports   see lib/slug.lua
ARGV[3]  start id  new for every request of the call
ARGV[4]  call id

Returns  {now, "granted", at}   send it at this instant, in µs
         {now, "wait", ask}     no lane is free; ask again at this instant, in µs
         {now, "gone"}          the call's lease is over: nobody counts it, so it must end
]]
local id = ARGV[3]
reap()
local before = call('ZSCORE', STARTS, id)
if before then return { now, 'granted', digits(before - rules.late_us - rules.window_us) } end
if not quiet_until() or not call('ZSCORE', LEASES, ARGV[4]) then return { now, 'gone' } end
local at, lane, ask = free_lane()
if not at then return { now, 'wait', digits(ask) } end
start(id, at, lane)
return { now, 'granted', digits(at) }
