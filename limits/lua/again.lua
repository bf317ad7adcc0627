--[[
again: leave for one further HTTP request of a call that runs. The slot is held, only a start is due.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  id       of the start, new for every request of the call
  call_id

Uses     context: digits, quiet_until
         memory: count, drop_ended
         lanes: free_lane, start

Returns  {now, "granted", at}   send it at this instant, in µs
         {now, "wait", ask}     no lane is free; ask again at this instant, in µs
         {now, "rules"}         they were changed; learn them and ask again
         {now, "gone"}          the call's lease is over: nobody counts it, so it must end
]]
return function(id, call_id)
  drop_ended(LEASES)
  drop_ended(STARTS)
  local before = call('ZSCORE', STARTS, id)
  if before then return { now, 'granted', digits(before - rules.late_us - rules.window_us) } end
  local quiet, unknown = quiet_until()
  if unknown == 'rules' then return { now, unknown } end
  if not quiet or not call('ZSCORE', LEASES, call_id) then return { now, 'gone' } end
  local at, lane, ask = free_lane()
  if not at then return { now, 'wait', digits(ask) } end
  start(id, at, lane)
  count('further')
  return { now, 'granted', digits(at) }
end
