--[[
state: where each operation stands, in its key tracking:status:<id>. `move` alone moves it.

An operation, as JSON:
  status      see MOVES; QUEUED is written by a door that put the request, and tells nothing here
  tracking    its parcel, <slug>:<number>; null when the parcel was forgotten
  hash        then: of its id, a blank and its parcel, so that the id stays that of one parcel
  at          ms, when it was admitted
  put         ms, when its producer put it, where it said so
  resend_of   the id of the operation that it repeats
  webhook     the service that hears of its end; cancels: not where a held reply tells of it
  auto        its request is AUTOMATIC
  age, till   ms, of its request, while it is open (has not ended)
  startedAt, finishedAt, output      from RUNNING on
  repliedAt   when its end was answered over HTTP, where that was to be noted: limits/ends.py
  anonymous, attempts                of one that ended: its requests had no id; the calls that were made,
              as in lib/record.lua

Requests without an id are one operation of their number's record. While it waits it stands in the
record only; its id names the parcel, so that it is found there.

A verdict: state (SUCCESS, ERROR or CANCELLED), output (JSON text), started (ms or nil), observed (ms:
when the answer was asked for), attempts (JSON text or nil).

A script adds once what happened, and how often, to two hashes of this moment, its tallies: one of 10 s over
all lines, kept for an hour, and one of 10 minutes for each slug, kept for a week. limits/admin/statistics.py
makes longer spans of them.

Their fields count
  STATE waited took     operations that ended so. The times are the least of the BOUNDS, in ms, that they
                        do not exceed: from the admission to the call that ended it, or to its end without
                        one; and of that call, at the first operation that it ended, else -
  WHY - took            calls that ended no operation: repeated, handed_back, lost (their worker vanished),
                        idle (their operations had all ended)
  merged                requests without an id beyond the first of their operation
  full, too_late, id_reused      requests that were refused

For a proof (limits/admin/proof.py) it adds up for ever, over all lines, in tracking:stats:operations: of
operations with an id how many were admitted and how many ended in each state, and the refused requests.
]]
local tally, tally_end, tally_call, call_is_over, account_for, write_tallies
do
  local HOUR_MS, WEEK_MS = 3600000, 604800000
  local BOUNDS = {
    100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 300000, 900000, 3600000, 21600000, 86400000,
  }
  local REFUSALS = { full = true, too_late = true, id_reused = true }
  local slugs, all, ends, balance, took = {}, {}, {}, {}, nil

  local function bound(ms)
    for _, most in ipairs(BOUNDS) do
      if ms <= most then return digits(most) end
    end
    return 'more'
  end

  -- Counts for the proof that operations are as many as were admitted.
  function account_for(what, by)
    balance[what] = (balance[what] or 0) + by
  end

  -- Counts what happened to requests of this line's courier.
  function tally(what, by)
    if not rules.counted then return end
    if REFUSALS[what] and rules.operations then account_for(what, 1) end
    local here = slugs[slug]
    if not here then
      here = {}
      slugs[slug] = here
    end
    here[what], all[what] = (here[what] or 0) + (by or 1), (all[what] or 0) + (by or 1)
  end

  -- A call that began at this µs is over: the first operation that ends now counts its time.
  function call_is_over(at)
    took = bound((now - at) / 1000)
  end

  -- A call is over that has ended no operation; without `at`, if none has counted it.
  function tally_call(why, at)
    if at then call_is_over(at) end
    if took then tally(why .. ' - ' .. took) end
    took = nil
  end

  -- Every end of an operation.
  function tally_end(operation, verdict)
    local waited, state = bound((verdict.started or now_ms) - operation.at), verdict.state
    tally(state .. ' ' .. waited .. ' ' .. (took or '-'))
    took = nil
    if rules.operations then ends[state] = (ends[state] or 0) + 1 end
  end

  -- Returns whether a field is new, as all are of a new hash.
  local function add(key, fields, lives_ms)
    local is_new = false
    for field, by in pairs(fields) do
      is_new = call('HINCRBY', key, field, by) == by or is_new
    end
    if is_new then call('PEXPIRE', key, lives_ms) end
    return is_new
  end

  -- Once, at the end of the script.
  function write_tallies()
    for what, by in pairs(balance) do
      redis.pcall('HINCRBY', 'tracking:stats:operations', what, by)
    end
    if ends.SUCCESS then call('INCRBY', 'tracking:stats:successes', ends.SUCCESS) end
    if ends.ERROR then call('INCRBY', 'tracking:stats:errors', ends.ERROR) end
    if not next(all) then return end
    local seconds = math.floor(now_ms / 1000)
    local begins = seconds - seconds % 600
    for name, fields in pairs(slugs) do
      local is_new = add('tracking:stats2:' .. name .. ':' .. begins, fields, WEEK_MS)
      if is_new and call('SADD', 'tracking:stats:slugs', name) == 1 then
        -- Where nothing was counted before, there is nothing to make longer spans of.
        call('SET', 'tracking:stats:made', begins - 600, 'NX')
      end
    end
    add('tracking:stats1:' .. seconds - seconds % 10, all, HOUR_MS)
  end
end

-- Statuses, as the script leaves them: each is read once, and all that changed are written at its end.
local EVENTS = 'tracking:events'
local status, note_statuses, set_status, write_statuses
do
  -- Redis drops whole blocks of up to 100 entries, so there are at most 100,000.
  local EVENTS_MOST, EVENTS_MS = '99900', '3600000'
  local texts, is_changed, changed, ended = {}, {}, {}, {}

  -- The text of an operation, false without one. `read`: its key, where that was read just now.
  function status(id, read)
    if texts[id] == nil then
      if read == nil then read = call('GET', STATUS .. id) end
      texts[id] = read
    end
    return texts[id]
  end

  -- Reads those that are not known yet, in one command: each is at hand from then on.
  function note_statuses(ids)
    local unread, keys = {}, {}
    for _, id in ipairs(ids) do
      if texts[id] == nil then
        unread[#unread + 1], keys[#keys + 1] = id, STATUS .. id
      end
    end
    local found = #keys > 0 and call('MGET', unpack(keys)) or {}
    for i, id in ipairs(unread) do texts[id] = found[i] end
  end

  -- text: false where none is to be. ends: it is that of an end, and is to be archived.
  function set_status(id, text, ends)
    if not is_changed[id] then is_changed[id], changed[#changed + 1] = true, id end
    texts[id] = text
    if ends then
      local all = #ended
      ended[all + 1], ended[all + 2] = digits(now_ms), id
    end
  end

  -- Once, at the end of the script.
  function write_statuses()
    local written = {}
    for _, id in ipairs(changed) do
      local all, text = #written, texts[id]
      if text then
        written[all + 1], written[all + 2] = STATUS .. id, text
      else
        call('DEL', STATUS .. id)
      end
    end
    if #written > 0 then call('MSET', unpack(written)) end
    if #ended == 0 then return end
    -- Who archives tells of a key of another type.
    redis.pcall('ZADD', 'tracking:to_archive', unpack(ended))
    redis.pcall('XTRIM', EVENTS, 'MAXLEN', '~', EVENTS_MOST)
    call('PEXPIRE', EVENTS, EVENTS_MS)
  end
end

local ENDED = { SUCCESS = true, ERROR = true, CANCELLED = true }

-- Of another account's number, NUMBER@account, this is a parcel of its own.
local function parcel_of(number)
  return slug .. ':' .. number
end

-- The number without the account that asks for it.
local function bare(number)
  local at = string.find(number, '@', 1, true)
  return at and string.sub(number, 1, at - 1) or number
end

-- The parcel as its account knows it; whose it is an operation's id tells.
local function tracking_of(number)
  return parcel_of(bare(number))
end

-- The parcel under which an operation is noted; `parcel_of` in other words.
local function own_parcel(id, operation)
  local account = string.match(id, '^([a-z0-9]+)/')
  return operation.tracking .. (account and '@' .. account or '')
end

-- Cancel and forget reach a number of every account that ever asked: they try these.
local function note_account(number)
  local at = string.find(number, '@', 1, true)
  if at then call('SADD', ACCOUNTS, string.sub(number, at + 1)) end
end

-- The id of the operation of requests without one; `job` is the key of the first of them.
local function anonymous_id(number, job)
  return slug .. ':' .. number .. ':' .. job
end

-- An operation of which nothing is known yet.
local function new_operation(number, request)
  return {
    tracking = tracking_of(number), at = now_ms, age = request.age, till = request.till,
    auto = request.auto, resend_of = request.resend_of, put = request.put, webhook = request.webhook,
    cancels = request.cancels,
  }
end

local move, delete_history
do
  -- What an operation may become. NONE: no operation is known under its id.
  local MOVES = {
    NONE = 'WAITING RUNNING SUCCESS ERROR CANCELLED',
    QUEUED = 'WAITING RUNNING SUCCESS ERROR CANCELLED',
    WAITING = 'RUNNING SUCCESS ERROR CANCELLED',
    RUNNING = 'WAITING SUCCESS ERROR CANCELLED',
    SUCCESS = '',
    ERROR = '',
    CANCELLED = '',
  }
  local DAY_MS = 86400000
  local dates, instants = {}, {}

  -- Days since 1970 as YYYY-MM-DD.
  local function date_of(days)
    if dates[days] then return dates[days] end
    -- Days to a date: H. Hinnant's civil_from_days, for years after 1970.
    local z = days + 719468
    local era = math.floor(z / 146097)
    local doe = z - era * 146097
    local y = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524)
      - math.floor(doe / 146096)) / 365)
    local doy = doe - (365 * y + math.floor(y / 4) - math.floor(y / 100))
    local month = math.floor((5 * doy + 2) / 153)
    local day = doy - math.floor((153 * month + 2) / 5) + 1
    month = month < 10 and month + 3 or month - 9
    local year = y + era * 400 + (month <= 2 and 1 or 0)
    dates[days] = string.format('%04d-%02d-%02d', year, month, day)
    return dates[days]
  end

  -- JSON. Calls that were granted together began together, so few instants are asked for.
  local function iso(ms)
    if not ms then return 'null' end
    if instants[ms] then return instants[ms] end
    local seconds = math.floor(ms / 1000)
    local days = math.floor(seconds / 86400)
    local rest = seconds - days * 86400
    instants[ms] = string.format('"%sT%02d:%02d:%02d.%03dZ"', date_of(days),
      math.floor(rest / 3600), math.floor(rest / 60) % 60, rest % 60, ms % 1000)
    return instants[ms]
  end

  -- In one piece: each piece less is a string less that Lua makes and throws away.
  local function written(operation, state, verdict)
    local known, open, begun, output, more = '', '', '', '', ''
    if operation.resend_of then known = ',"resend_of":' .. cjson.encode(operation.resend_of) end
    if operation.webhook then known = known .. ',"webhook":' .. cjson.encode(operation.webhook) end
    if operation.cancels then known = known .. ',"cancels":true' end
    if operation.put then known = known .. ',"put":' .. digits(operation.put) end
    if not ENDED[state] then
      if operation.age then open = ',"age":' .. digits(operation.age) end
      if operation.till then open = open .. ',"till":' .. digits(operation.till) end
    end
    if state ~= 'WAITING' then
      begun = ',"startedAt":' .. iso(verdict.started) .. ',"finishedAt":' .. iso(ENDED[state] and now_ms)
        .. ',"output":'
      output = verdict.output or 'null'
      if ENDED[state] and operation.anonymous then more = ',"anonymous":true' end
      if verdict.attempts then more = more .. ',"attempts":' .. verdict.attempts end
    end
    return '{"status":"' .. state .. '","tracking":"' .. operation.tracking .. '","at":' .. digits(operation.at)
      .. known .. (operation.auto and ',"auto":true' or '') .. open .. begun .. output .. more .. '}'
  end

  local trimmed, TRIMMED_AT_ONCE = {}, 1000

  -- Whose call begins, or who ends without one, is found by the parcel too, for a day. Who only waits is
  -- in the number's record: a key more for each of a million would be dear.
  local function note_of_parcel(id, operation)
    local key = HISTORY .. own_parcel(id, operation)
    -- It only shows: a key of another type, which `check` tells, must keep nobody from being called.
    local noted = redis.pcall('ZADD', key, digits(now_ms), id)
    if type(noted) == 'table' then return end
    if trimmed[key] then return end
    trimmed[key] = true
    -- Mostly a parcel is asked for once a day: with no end yet, the list holds nothing but this entry.
    if call('PEXPIRE', key, digits(DAY_MS), 'NX') == 1 then return end
    call('PEXPIRE', key, digits(DAY_MS))
    local old = call('ZCOUNT', key, '-inf', now_ms - DAY_MS)
    if old > 0 then call('ZREMRANGEBYRANK', key, 0, math.min(old, TRIMMED_AT_ONCE) - 1) end
  end

  -- What is noted of the parcel from now on, perhaps in this script, gets an end of its own again.
  function delete_history(number)
    local key = HISTORY .. parcel_of(number)
    trimmed[key] = nil
    call('UNLINK', key) -- of a million, DEL alone would hold Redis for long
  end

  -- Every end of an operation, whatever script it comes from. What is to follow from an end begins here.
  -- Its status gets an end of its own when it is archived: archive.lua.
  local function write_end(id, operation, was, verdict)
    set_status(id, written(operation, verdict.state, verdict), true)
    -- For those who hear of all ends: limits/ends.py. What else is to be known stands in the status.
    redis.pcall('XADD', EVENTS, '*', verdict.state, id)
    if operation.anonymous then return end
    account_for(verdict.state, 1)
    if was == 'WAITING' or was == 'RUNNING' then
      count_open(operation, -1)
    else
      account_for('admitted', 1)
    end
  end

  local function note_end(id, operation, was, verdict)
    if rules.operations then write_end(id, operation, was, verdict) end
    count_end(verdict.state)
    tally_end(operation, verdict)
  end

  local function write_state(id, operation, was, state, verdict)
    if state == 'WAITING' and operation.anonymous then
      set_status(id, false)
      return
    end
    set_status(id, written(operation, state, verdict))
    if was ~= 'RUNNING' and was ~= 'WAITING' and not operation.anonymous then
      count_open(operation, 1)
      account_for('admitted', 1)
    end
  end

  -- Brings an operation, as it was read, to another state. verdict: of an end; of RUNNING, `started`.
  -- Returns false when it must not go there: nothing is changed then. Of a line that has no operations nothing is
  -- written: the record of its number alone tells where a request stands.
  function move(id, operation, state, verdict)
    local was = operation.status or 'NONE'
    if not string.find(MOVES[was] or '', state, 1, true) then return false end
    budget.left = budget.left - 1
    if ENDED[state] then
      note_end(id, operation, was, verdict)
    elseif rules.operations then
      write_state(id, operation, was, state, verdict)
    end
    local is_told = rules.operations and rules.counted
    if is_told and state ~= 'WAITING' and was ~= 'RUNNING' then note_of_parcel(id, operation) end
    operation.status = state
    return true
  end
end

-- The operation in `text`; nil when there is none. What a door wrote, or anybody else, is none: an open
-- one has its parcel and its time.
local function operation_in(text)
  local operation = text and decoded(text)
  if not operation or not ENDED[operation.status] and not operation.at then return nil end
  return operation
end

-- The operation of requests without an id, and its id: the record of their number tells all of it, from their
-- admission to their end.
local function anonymous_operation(number, record)
  local anon = record.anon
  -- Of those that are given up without a call none runs.
  local runs = record.n and type(record.dying) ~= 'table'
  return {
    tracking = tracking_of(number), at = anon.at or record.since, auto = anon.auto, put = anon.put,
    resend_of = anon.resend_of, status = runs and 'RUNNING' or nil, anonymous = true,
  }, anonymous_id(number, anon.id)
end

-- The other parcel that an operation is of, nil when it is this one's; '' for one that was forgotten, of
-- which only a hash is left.
local function elsewhere(id, operation, number)
  local parcel = tracking_of(number)
  if type(operation.tracking) == 'string' then
    return operation.tracking ~= parcel and operation.tracking or nil
  end
  return operation.hash and operation.hash ~= redis.sha1hex(id .. ' ' .. parcel) and '' or nil
end

-- Those of `ids` that have not ended and are of this number, by their place in `ids`. An id may be that
-- of another parcel by now: a day after its end it is free again.
local function open_among(ids, number)
  local found, parcel = {}, tracking_of(number)
  budget.left = budget.left - #ids / 4
  note_statuses(ids)
  for i, id in ipairs(ids) do
    local text = status(id)
    local operation = operation_in(text)
    -- A record carries it and its status cannot be read: it has not ended, as far as is known.
    if text and not decoded(text) then
      operation = { status = 'WAITING', tracking = parcel, at = now_ms }
    end
    if operation and not ENDED[operation.status] and operation.tracking == parcel then
      found[i] = operation
    end
  end
  return found
end
