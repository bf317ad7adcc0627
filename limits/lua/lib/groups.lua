--[[
groups: is a number that waits still wanted, and who rides with it?

Riders are picked among those next in line, from the list of the lead first, then from the other one: those that
belong together with the lead. All others keep their places, and lead calls of their own in their turn.
]]
local wanted, members_of
do
  -- Entries that are looked at for each number that a call takes.
  local LOOKED_AT = 4

  -- For end_where: whose time was over before a call could be made.
  local function expired(_, _, till) return till ~= nil and till <= now_ms end

  -- Ends those whose time is over. Returns false when more operations of the number are to be looked at.
  local function end_expired(number, record)
    local anon = record.anon
    local cancelled = not anon and (record.ids or 0) <= 0
    local doubt = cancelled or record.tills or record.todo or (anon and anon.till)
    return not doubt or end_where(number, record, EXPIRED, expired)
  end

  -- The record of a number without one: pushed by hand, or by the original system, it is one plain request. Nil
  -- when that ends by an answer which is fresh enough.
  local function by_hand(number, base)
    local record = { since = now_ms, anon = { id = 'hand-' .. base } }
    local answer = rules.remembers and fresh(call('GET', ANSWER .. number))
    if not (answer and serves(answer, {})) then return record end
    end_anonymous(number, record, answer)
    return nil
  end

  -- Returns the record of a number that was popped and the call that runs for it, nil when nobody wants
  -- it (any more), or false when more of its operations are to be looked at; it is the first in line
  -- again then.
  function wanted(number, base)
    local record = read_record(REQUESTS, number)
    if not record then
      -- Who asks for another account has a record: this one could not be read, and waits for a person.
      if string.find(number, '@', 1, true) then return nil end
      record = by_hand(number, base)
      return record, record and running(number)
    end
    if record.state == 'later' then change_later('ZREM', LATER, number) end
    if not end_expired(number, record) then
      record.state, record.position = nil, push_first(list_of(record), number)
      write_record(REQUESTS, number, record)
      return false
    end
    local runs = running(number)
    if nobody_left(record) or not runs then call('HDEL', REQUESTS, number) end
    return not nobody_left(record) and record or nil, runs
  end

  -- Whether a number may be called together with others. After a death it is alone: should it have killed the
  -- worker, nobody else is lost with it once more. And where many wait for it, they take a script's time.
  local function goes_along(record)
    return (record.deaths or 0) == 0 and not record.alone and not record.listed
  end

  local function belongs(record, lead)
    return goes_along(record) and record.half == lead.half
      and (record.fields == lead.fields or cover(record.fields, lead.fields) and cover(lead.fields, record.fields))
  end

  -- Returns the record of a number that rides; nil and whether it leaves its place, as nobody wants it any more.
  local function rider(number, text, lead, base)
    local record = text and record_in(REQUESTS, number, text)
    if text and (not record or record.state) then return nil, false end
    if not belongs(record or {}, lead) then return nil, false end
    if not text then
      record = by_hand(number, base)
      return record, not record
    end
    if not end_expired(number, record) then return nil, false end
    if nobody_left(record) then return nil, true end
    return record, false
  end

  -- Whether a group takes no more. It may take longer than what is left of the script's time: a call that is not
  -- full is dearer.
  local function is_full(group)
    local RIDER_COSTS = 4
    return #group.members >= group.most or budget.left <= -RIDER_COSTS * rules.together
  end

  -- Whether an entry may ride that is in no group and has no call yet. Pushed by hand it may be anything, also the name
  -- of the field that holds no record: only what has a record, or the name of a number of `main`, does.
  local function may_ride(entry, text)
    return entry ~= '' and entry ~= '!relist' and (text or not string.find(entry, '[^%w ._/-]'))
  end

  -- Adds those of a list's entries that ride; whose entries leave the list is noted in `gone`: names and indexes.
  -- Returns how many entries there are.
  local function pick(group, list, from, most, gone)
    local listed, names, calls = call('LRANGE', list, from, from + most - 1), group.names, {}
    if not listed[1] then return 0 end
    for i, entry in ipairs(listed) do calls[i] = '=' .. entry end
    local records = call('HMGET', REQUESTS, unpack(listed))
    calls = call('HMGET', INFLIGHT, unpack(calls))
    for i, number in ipairs(listed) do
      local name = bare(number)
      local is_free = not calls[i] and not names[name] and not quota_ends(number)
      if is_free and may_ride(number, records[i]) and not is_full(group) then
        -- A key of this number may not be what it should be: that is heard when it leads.
        local done, record, ends = pcall(rider, number, records[i], group.members[1][2], group.base)
        budget.left = budget.left - (done and record and record.ids or 1)
        if done and (record or ends) then
          gone.numbers[#gone.numbers + 1], gone.indexes[#gone.indexes + 1] = number, from + i - 1
        end
        if done and record then names[name], group.members[#group.members + 1] = true, { number, record } end
      end
    end
    return #listed
  end

  -- The lead and its riders, in the order in which they waited: {number, record} of each. While one call alone tries,
  -- it is for one number: of several, one that always fails would hide what the others tell.
  function members_of(number, record, list, base)
    local group = { members = { { number, record } }, names = { [bare(number)] = true }, base = base }
    if rules.together == 1 or not goes_along(record) or calls_alone() then return group.members end
    group.most = most_together()
    local left = LOOKED_AT * rules.together
    for _, each in ipairs({ list, list == MANUAL and AUTOMATIC or MANUAL }) do
      local gone, from = { numbers = {}, indexes = {} }, 0
      if numbers(each) > 0 then pass_gaps(each) end
      while left > 0 and not is_full(group) and from < entries(each) do
        local most = math.min(left, group.most - #group.members)
        local looked = pick(group, each, from, most, gone)
        if looked == 0 then break end
        from, left = from + looked, left - looked
      end
      if #gone.numbers > 0 then
        take_riders(each, gone.indexes)
        call('HDEL', REQUESTS, unpack(gone.numbers))
      end
    end
    return group.members
  end
end
