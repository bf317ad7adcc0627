--[[
tallies: how much happened of what, added once a script to two hashes of this moment: one of 10 s over
all lines, kept for an hour, and one of 10 minutes for each slug, kept for a week. limits/admin/statistics.py makes
longer spans of them.

Their fields count
  STATE waited took     operations that ended so. The times are the least of the BOUNDS, in ms, that they
                        do not exceed: from the admission to the call that ended it, or to its end without
                        one; and of that call, at the first operation that it ended, else -
  WHY - took            calls that ended no operation: repeated, handed_back, lost (their worker vanished),
                        idle (their operations had all ended)
  merged                requests without an id beyond the first of their operation
  full, too_late, id_reused      requests that were refused
]]
local tally, tally_end, tally_call, call_is_over, write_tallies
do
  local HOUR_MS, WEEK_MS = 3600000, 604800000
  local BOUNDS = {
    100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 300000, 900000, 3600000, 21600000, 86400000,
  }
  local slugs, all, ends, took = {}, {}, {}, nil

  local function bound(ms)
    for _, most in ipairs(BOUNDS) do
      if ms <= most then return digits(most) end
    end
    return 'more'
  end

  -- Counts what happened to requests of this line's courier.
  function tally(what, by)
    if not rules.counted then return end
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
