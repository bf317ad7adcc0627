--[[
context: names for the keys, the rules and the time that every operation on a line works with.

One script does the steps of many requests, of the same line or of others: `turn_to` binds the names
to the line of the step at hand. lib/batch.lua calls it.

KEYS     wait_list:<line>, one for each line; the line's other keys are named from it here, as in
         limits/keys.py.

What a step works with:
rules    of the line: epoch, revision (of the rules, as MongoDB counts their changes; -1: the worker knows
         none of this epoch), token (of this process), concurrent, per_second, together, fill_us (where together
         is more than 1: how long a re-check waits for company), quotas_count_numbers, window_us, lane_us (how
         far ahead a lane can lie, of whatever process), late_us, ahead_us, lease_us, max_waiting, max_age_ms, answer_ms, deaths, per_hour, per_day,
         day_resets_at_us; rationed (some account has a quota: lib/quotas.lua); merges, remembers, takes_over, operations, counted (of the line's kind:
         tracking/line.py)
known    what is known of the line: lib/memory.lua alone reads and writes it
budget   what is left of this script's time
is_full  Redis has reached its maxmemory: no new request may be taken
now      µs, by Redis' clock; now_ms: the same in ms

`STATUS`, `ANSWER`, `FORGOTTEN`, `HISTORY` and `OPERATIONS` are prefixes, completed with what only the
script learns. Names that are not in KEYS are why the project wants one Redis and no Cluster.

Of a step's cost most is what Lua throws away, and each redis.call: so names and texts are made once,
and nothing is asked twice.
]]
local call = redis.call

-- What a JSON object says; nil for a text that is none, which somebody else must have written.
local function decoded(text)
  local done, found = pcall(cjson.decode, text)
  return done and type(found) == 'table' and found or nil
end

local CALLS, SECOND, LEASES, STARTS, MANUAL, AUTOMATIC, LATER
local REQUESTS, INFLIGHT, DRAINER, FLAG, PAUSED, HELD, BRAKE, HOUR, DAY
local COUNTS, ORDER, OPERATIONS, ANSWER, UNREADABLE
local LINES, ACCOUNTS, STATUS = 'wait_slugs', 'tracking:accounts', 'tracking:status:'
local FORGOTTEN, HISTORY = 'tracking:forgotten:', 'tracking:operations:'
local line, slug, rules, known

local now
do
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local now_ms = math.floor(now / 1000)

-- Redis compares its memory with maxmemory before the first write of a script only. This first write
-- changes nothing, and is refused when Redis is full; a deletion is never refused, and lets the writes
-- behind it pass: whatever waits or runs already is carried to its end.
local is_full
do
  local reply = redis.pcall('SET', 'tracking:nothing', '', 'XX')
  is_full = type(reply) == 'table' and string.find(reply.err or '', '^OOM') ~= nil
  if is_full then call('DEL', 'tracking:nothing') end
end

-- What this script may still do, in units of about 10 µs, before Redis hears others again. Whatever is done
-- for as many as there are spends it, and stops once it is spent: to go on in another script.
local budget = { left = 160 }

-- In the place of a step's reply: send it again.
local NOT_BEGUN = 0

local lines, turn_to = {}
do
  local rules_at = {}

  -- The rules in ARGV[at]: JSON, and the same for many lines.
  local function rules_in(at)
    if not rules_at[at] then rules_at[at] = cjson.decode(ARGV[at]) end
    return rules_at[at]
  end

  -- In the order in which turn_to binds them.
  local function names_of(list, line, slug)
    return {
      'calls_number:' .. line, 'sec_calls:' .. line,
      'calls_leases:' .. line, 'call_starts:' .. line,
      list, 'wait_list_automatic:' .. line, 'wait_later:' .. line,
      'wait_requests:' .. line, 'wait_inflight:' .. line,
      'wait_drainer:' .. line, 'wait_list_activated:' .. line,
      'calls_paused:' .. line, 'calls_held:' .. line, 'calls_brake:' .. line,
      'calls_hour:' .. line, 'calls_day:' .. line,
      'tracking:counts:' .. line, 'wait_order:' .. line, 'wait_operations:' .. line .. ':',
      'tracking:answer:' .. slug .. ':', 'wait_unreadable:' .. line,
    }
  end

  -- list: of KEYS; at: where the line's rules stand in ARGV. A line is there twice when its rules have
  -- just changed; what is known of it is known once.
  function turn_to(list, at)
    rules = rules_in(at)
    if MANUAL == list then return end
    known = lines[list]
    if not known then
      local name = string.sub(list, #'wait_list:' + 1)
      -- A line is a slug, or a slug, an @ and an account; answers are the courier's.
      local courier = string.match(name, '^[^@]*')
      known = {
        line = name, slug = courier, at = at, names = names_of(list, name, courier),
        counts = {}, ended = {}, sizes = {}, clamped = {}, dropped = {}, changed = {}, entries = {},
        groups = false, landed = false,
        signs = false, order = false, waits = false, later = false, average = false,
        listed = false, moved = false, busy = false, leased = false, started = false, flagged = false,
        company = false,
      }
      lines[list] = known
    end
    line, slug = known.line, known.slug
    CALLS, SECOND, LEASES, STARTS, MANUAL, AUTOMATIC, LATER, REQUESTS, INFLIGHT, DRAINER, FLAG,
      PAUSED, HELD, BRAKE, HOUR, DAY, COUNTS, ORDER, OPERATIONS, ANSWER, UNREADABLE = unpack(known.names)
  end
end

local digits, quiet_until, note_revision, leapt_us
do
  local EPOCH, REVISION, LEAP = 'tracking:epoch', 'tracking:rules', 'tracking:leap'
  local LEASE_MOST_US = 60000000
  local written, found = {}, nil

  -- 14 digits are all that .. and tostring keep of a number: microseconds need 16.
  function digits(number)
    local text = written[number]
    if not text then
      text = string.format('%d', number)
      written[number] = text
    end
    return text
  end

  local function read()
    local texts = call('MGET', EPOCH, REVISION, LEAP)
    local name, quiet = string.match(texts[1] or '', '^(%S+) (%d+)$')
    local leapt = string.match(texts[3] or '', ' (%d+)$')
    return {
      name = name, quiet = tonumber(quiet), revision = tonumber(texts[2] or 0) or 0,
      leapt = tonumber(leapt or 0),
    }
  end

  -- By how much the clock leapt forward within the last hour: so much too old all from before it looks.
  function leapt_us()
    found = found or read()
    return found.leapt
  end

  -- Revisions only grow: who writes an older one late changes nothing.
  function note_revision(revision)
    found = found or read()
    if revision <= found.revision then return end
    found.revision = revision
    call('SET', REVISION, digits(revision))
  end

  -- Whether Redis has the accounts' quotas that this worker has read, and no others.
  local function knows_quotas()
    found.quotas = found.quotas or call('HGET', 'tracking:account_quotas', '!') or ''
    return found.quotas == digits(rules.revision)
  end

  -- quiet: µs until which nobody starts; nil and what the worker has to learn before anybody may start: the
  -- "epoch", where this Redis is not the one it knew, or the "rules", where they were changed.
  function quiet_until()
    found = found or read()
    if found.name ~= rules.epoch then return nil, 'epoch' end
    if rules.revision < found.revision then return nil, 'rules' end
    -- The worker learned them from MongoDB, and this Redis is empty, or was not there at the change.
    if rules.revision > found.revision then note_revision(rules.revision) end
    if rules.rationed and not knows_quotas() then return nil, 'rules' end
    -- It is for all lines, and no longer than a lease may be: further ahead it lies only because the clock
    -- stepped back.
    if found.quiet > now + LEASE_MOST_US then
      found.quiet = now + LEASE_MOST_US
      call('SET', EPOCH, found.name .. ' ' .. digits(found.quiet))
    end
    return found.quiet
  end
end

-- What was measured of calls, apart from lanes and leases: for limits/admin/violations.py, once a script.
local measured = {}
local function note_measured(what)
  measured[#measured + 1] = line
  measured[#measured + 1] = what
end

-- A lane that went to another call since is left alone (XX); up or down, the report is the truth.
local function note_reports(reports)
  if reports == '[]' then return end
  note_measured(reports)
  reports = cjson.decode(reports)
  for i = 1, #reports, 2 do
    call('ZADD', STARTS, 'XX', reports[i + 1] + rules.window_us, reports[i])
    if rules.per_hour then call('ZADD', HOUR, 'XX', reports[i + 1], reports[i]) end
  end
end
