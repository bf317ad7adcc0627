--[[
filling: those who wait have one call together, where the courier answers for several numbers in one: a little time
fills it.

Nobody waits when the line's calls fail and one alone tries, or with somebody who was tried before, is of half a
group, or is to go alone. Else
  an AUTOMATIC request waits until enough are there for a full call, or rules.fill_us. Or a MANUAL one leads and
         takes it along
  a MANUAL one goes at once
Where a quota counts calls, company saves much of it, and re-checks leave it to people:
  an AUTOMATIC request leads only while no more is spent than the quota's linear share
  a MANUAL one goes at once while that is so, or when enough are there for a full call. Else it waits until then,
         for 10 s at most

What binds a line (lib/lanes.lua) is asked for before that. An expiry ends the wait a second before it.
]]
local leading, company_ends, hurry_of
do
  local MANUAL_US, HURRY_MS = 10000000, 1000

  -- ms from which on a request that expires waits for nobody; nil for others.
  function hurry_of(request)
    return rules.together > 1 and request.till and request.till - HURRY_MS or nil
  end

  -- Whether it is called without others, or a call before kept it from its answer.
  local function goes_at_once(record)
    return record.tries or record.half or record.alone or (record.deaths or 0) > 0
  end

  -- Of a list's first entries, as many as ride with a call: µs at which the first of them has waited for as long as
  -- one of this list waits, and at which the first of those goes that wait for nobody; +inf where there is none.
  local function patience_of(list)
    local listed, ends, urgent = {}, math.huge, math.huge
    local entries_here = numbers(list) > 0 and call('LRANGE', list, 0, 4 * rules.together - 1) or {}
    for _, number in ipairs(entries_here) do
      if number ~= '' and #listed < rules.together then table.insert(listed, number) end
    end
    -- Gaps alone are passed over by the next take.
    if entries_here[1] and not listed[1] then return 0, 0 end
    for _, text in ipairs(listed[1] and call('HMGET', REQUESTS, unpack(listed)) or {}) do
      local record = text and decoded(text)
      -- Without one it was pushed by hand.
      if not record or goes_at_once(record) then return 0, 0 end
      ends = math.min(ends, record.since * 1000 + (list == MANUAL and MANUAL_US or rules.fill_us))
      urgent = math.min(urgent, (record.hurry or math.huge) * 1000)
    end
    return ends, urgent
  end

  -- Returns the list whose first may lead the next call, nil: the one that has its turn. And where all who wait do
  -- so for company, or for their share: until when, in µs. Changes nothing.
  function leading()
    local waiting = rules.together > 1 and waits() or 0
    if waiting == 0 or calls_alone() then return nil end
    local is_full, share = waiting >= rules.together, in_share()
    if is_full and share <= now then return nil end
    local manual, automatic, urgent = math.huge, 0, nil
    if numbers(MANUAL) > 0 then
      manual = (is_full or share <= now) and 0 or math.min(share, patience_of(MANUAL))
    end
    if is_full and manual <= now then return nil end
    automatic, urgent = patience_of(AUTOMATIC)
    if is_full then automatic = 0 end
    -- Where both may lead, every fourth turn is a re-check's, whatever the share.
    if manual <= now then return math.min(urgent, automatic) > now and MANUAL or nil end
    automatic = math.min(urgent, math.max(automatic, share))
    if automatic <= now then return AUTOMATIC end
    return nil, math.min(manual, automatic)
  end

  -- The same instant for a request that has just come, as if nobody else waited for less; nil where nobody waits for
  -- company or a share.
  function company_ends(request)
    if rules.together == 1 or calls_alone() then return nil end
    local waiting = waits()
    if waiting > rules.together and not is_rationed() then return nil end
    local ends = 0
    if request.auto and not request.alone then
      ends = math.max(in_share(), waiting < rules.together and now + rules.fill_us or 0)
    elseif not request.alone and waiting < rules.together then
      ends = math.min(in_share(), now + MANUAL_US)
    end
    return math.max(now, math.min(ends, (hurry_of(request) or math.huge) * 1000))
  end
end
