--[[
batch: runs the steps of the script, in their order.

KEYS     one for each line, see lib/context.lua
ARGV[1]  latest    µs, the latest that this worker knows Redis' clock can show; 0: it knows none
ARGV[2]  rules     how many there are
ARGV[3]  kinds     of steps: name of the operation and how many values such a step has in ARGV, as
                   "admit 5 finish 7 "; steps of one operation may have different numbers of them
ARGV[4…] rules     JSON
then     which     which of the rules holds, from 1, for each line
then     steps     each: what, reports, and the values that the operation's header names
         what      the line's index times the number of kinds, plus the kind's, both from 0: one value
                   instead of two
         reports   JSON: [start id, send in µs of Redis' clock, …], measured since the last script;
                   they are noted before the operation begins

When all are done, what is projected for operators is written once for each line, what happened is
counted, and what was measured is added to tracking:measured, which holds the last 15 s.

Returns  {reply, …}  one for each step, as the operation's header says; an error in the place of what
                     could not be done, because a key of that line is not what it should be; 0 in the
                     place of a step that has more to do than a script may: send it again
         now      µs, and nothing was done: it is later than it can be. Either the clock leapt forward,
                  and leases of calls that run would end (leap.lua), or the script came late: send it
                  again
]]
-- An error that nobody catches would end the script before the others' counters and expiries.
local function attempt(what, ...)
  local done, reply = pcall(what, ...)
  if done or type(reply) == 'table' then return reply end
  return redis.error_reply(reply)
end

-- In a function, because of its names: a chunk may have 200.
local function run()
  local ANY_STEP = 2
  local latest = tonumber(ARGV[1])
  if latest > 0 and now > latest then return now end
  local last_rules = 3 + ARGV[2]
  local function step(kind, index, at)
    turn_to(KEYS[index], 3 + ARGV[last_rules + index])
    note_reports(ARGV[at + 1])
    return kind.operation(unpack(ARGV, at + 2, at + kind.width - 1))
  end

  local kinds, replies = {}, {}
  for name, width in string.gmatch(ARGV[3], '([%l_]+) (%d+)') do
    table.insert(kinds, { operation = operations[name], width = tonumber(width) })
  end
  local at, last = last_rules + #KEYS + 1, #ARGV
  while at <= last do
    local kind = kinds[ARGV[at] % #kinds + 1]
    if budget.left > 0 then
      budget.left = budget.left - ANY_STEP
      replies[#replies + 1] = attempt(step, kind, math.floor(ARGV[at] / #kinds) + 1, at)
    else
      replies[#replies + 1] = NOT_BEGUN
    end
    at = at + kind.width
  end
  for list, seen in pairs(lines) do
    turn_to(list, seen.at)
    close_line(attempt)
  end
  if #busy > 0 then attempt(call, 'SADD', LINES, unpack(busy)) end
  attempt(write_statuses)
  attempt(write_tallies)
  if #measured > 0 then
    local text = table.concat(measured, ' ')
    attempt(call, 'XADD', 'tracking:measured', 'MINID', '~', now_ms - 15000, '*', 'm', text)
  end
  return replies
end

return run()
