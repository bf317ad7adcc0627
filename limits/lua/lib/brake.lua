--[[
brake: what stops all calls of a line, and what lets them go on.

calls_paused   why nobody calls, until it expires
calls_held     somebody paused the line by hand; it expires where an end was named
calls_brake    what is known of a line whose calls fail, JSON:
  failed    the numbers that failed in a row, each once, and no more than it takes to stop the line; a group
            is the id of the call that leads it
  why       of the newest failure; firm: an answer does not end its pause
  pauses    how many there were in a row, each longer than the last (but for those that the courier
            named); after each, one call alone tries
  at        ms   when the newest of them began: a call of before tells nothing new; till: when it ends,
                 until when those are in wait_later that failed meanwhile
  began     ms   when the first of them began: for an hour they are shorter
  refused   ms   since when every call was refused; patience: ms after which those end who waited for
            so long, and were refused themselves; unsent: all who waited, as no number was asked
            about; until_ms: from then on it does not count as refused, if nobody has asked again
  mark      what was refused, hashed: other credentials end the pause
  last      ms   the newest failure
  answered  ms   the first answer after the last failure, which ends all of the above

What failing means is the policy of the line's kind; it comes with each failure (see retry.lua).
]]
local DAY_US = 86400000000
local paused_us, calls_alone, answered_ms, patience_ends, note_failure, note_answer
local stands_because, wake_failed
do
  local HOUR_MS = 3600000

  local function lives_us(key)
    local ms = call('PTTL', key)
    return ms == -1 and DAY_US or math.max(ms, 0) * 1000
  end

  -- µs of the pause that the courier has caused, 0 without one.
  local function stopped_us()
    return signs()[IS_PAUSED] and lives_us(PAUSED) or 0
  end

  -- µs for which nobody may call, 0 without a pause; a day where no end was named.
  function paused_us()
    return signs()[IS_HELD] and math.max(stopped_us(), lives_us(HELD)) or stopped_us()
  end

  local function brake()
    local text = signs()[BRAKES]
    return text and decoded(text) or {}
  end

  -- Whether one call alone may run, until an answer comes.
  function calls_alone()
    return signs()[BRAKES] and brake().pauses ~= nil
  end

  -- Why the calls of the line failed, while it stops for that, or its credentials are refused; else nil.
  function stands_because()
    local state = brake()
    return signs()[IS_PAUSED] or (state.pauses or state.mark) and state.why or nil
  end

  -- The time has come for those in wait_later who are due in this span (ms).
  local function make_due(after, till)
    if later() == 0 then return end
    for _, number in ipairs(call('ZRANGEBYSCORE', LATER, after, till, 'LIMIT', 0, 200)) do
      change_later('ZADD', LATER, 'XX', now_ms, number)
    end
  end

  -- The line goes on: who failed meanwhile waits for the end of the pause; of refused credentials perhaps
  -- for longer, as fewer numbers failed than stop a line. The key of the pause may end a millisecond before
  -- they are due: Redis before 7.2 counts it from the script's start, we from the script's first look.
  function wake_failed()
    local state = brake()
    local till = math.max(now_ms + paused_us() / 1000, state.till or 0)
    make_due('(' .. now_ms, state.mark and '+inf' or till)
  end

  -- ms of the first answer after the last failure, of whatever number; 0 for none. Of the same
  -- millisecond as a failure it counts by which was noted first.
  function answered_ms()
    return brake().answered or 0
  end

  -- Returns ms: those who arrived before waited for so long that they end, as every call was refused
  -- meanwhile; why; and the ms since when their own refusal counts, 0: nobody's is asked for. Nil while
  -- nobody has to end.
  function patience_ends()
    local state = brake()
    local is_refused = state.refused and now_ms <= state.until_ms
    if not is_refused or now_ms - state.refused < state.patience then return nil end
    return now_ms - state.patience, state.why, state.unsent and 0 or state.refused
  end

  local function note_refusal(state, setback, wait_ms)
    if not setback.patience then
      state.refused = nil
      return
    end
    local throughout = state.refused and now_ms <= state.until_ms
    state.refused = throughout and state.refused or now_ms
    state.patience, state.unsent = setback.patience, setback.unsent
    state.until_ms = math.max(throughout and state.until_ms or 0, now_ms + wait_ms + 2 * HOUR_MS)
  end

  local function note_number(state, number, most)
    state.failed = state.failed or {}
    for _, failed in ipairs(state.failed) do
      if failed == number then return end
    end
    if #state.failed < most then table.insert(state.failed, number) end
  end

  -- ms of the pause that a failure brings, 0 for none. The calls that were in flight together count as
  -- one failure.
  local function pause_of(state, setback, granted)
    if setback.named then
      state.pauses = state.pauses or 0
      return setback.named
    end
    local before = state.at and state.at <= now_ms and math.floor(granted / 1000) <= state.at
    if before or #state.failed < setback.after then return 0 end
    state.pauses, state.at, state.began = (state.pauses or 0) + 1, now_ms, state.began or now_ms
    local is_early = setback.early and now_ms - state.began < HOUR_MS
    return math.min(setback.first * 2 ^ (state.pauses - 1), is_early and setback.early or setback.cap)
  end

  -- A call failed: the line may stop. `granted`: µs, of the call. Returns the ms after which its number
  -- may be tried again; nil when the line goes on, and the number is to wait for its own backoff.
  function note_failure(number, granted, setback)
    local state = brake()
    state.last = math.max(now_ms, state.answered or 0)
    -- A courier that is back after an outage and asks for patience is not asked to wait for an hour.
    if setback.firm and state.pauses and state.why ~= setback.why then state.pauses = 0 end
    state.why, state.firm, state.mark = setback.why, setback.firm, setback.mark
    note_number(state, number, setback.after)
    local wait_ms = pause_of(state, setback, granted)
    if wait_ms > 0 then state.till = math.max(state.till or 0, now_ms + math.ceil(wait_ms)) end
    note_refusal(state, setback, wait_ms)
    set_sign(BRAKES, BRAKE, cjson.encode(state), DAY_US / 1000 + math.ceil(wait_ms))
    if wait_ms > 0 and stopped_us() < wait_ms * 1000 then
      set_sign(IS_PAUSED, PAUSED, setback.why, math.ceil(wait_ms))
    end
    return state.pauses and math.max(0, (state.till or 0) - now_ms)
  end

  -- The courier has answered. Returns whether others could not call because it had not.
  function note_answer()
    local state = brake()
    if not state.failed then return false end
    local stopped = state.pauses ~= nil
    set_sign(BRAKES, BRAKE, cjson.encode({ answered = math.max(now_ms, (state.last or 0) + 1) }), DAY_US / 1000)
    if signs()[IS_PAUSED] and signs()[IS_PAUSED] == state.why and not state.firm then
      delete_signs(PAUSED)
      make_due(state.till, state.till)
    end
    return stopped
  end
end
