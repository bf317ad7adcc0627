--[[
filling: those who wait have one call together, where the courier answers for several numbers in one: a little time
fills it.

Nobody waits for company when enough wait for a full call, when the line's calls fail and one alone tries, or with
somebody who was tried before, is of half a group, or is to go alone. Else
  an AUTOMATIC request waits for rules.fill_us, or until a MANUAL one leads and takes it along
  a MANUAL one goes at once. Under a quota, of which company saves the most, it does so while no more is spent
         than the quota's linear share; else it waits until that is so, for 10 s at most

What binds a line (lib/lanes.lua) is asked for before that. An expiry ends the wait a second before it.
]]
local leading, company_ends, hurry_of
do
  local MANUAL_US, HURRY_MS = 10000000, 1000

  -- ms from which on a request that expires waits for nobody; nil for others.
  function hurry_of(request)
    return rules.together > 1 and request.till and request.till - HURRY_MS or nil
  end

  -- Whether company does not help it, or kept it from an answer before.
  local function goes_at_once(record)
    return record.tries or record.half or record.alone or (record.deaths or 0) > 0
  end

  -- µs at which who came to this list then (ms) waits for company no more.
  local function ends_for(list, since, hurry)
    local ends = list == AUTOMATIC and since * 1000 + rules.fill_us
      or math.min(since * 1000 + MANUAL_US, in_share())
    return math.min(ends, hurry and hurry * 1000 or math.huge)
  end

  -- µs from which on the first of this list may lead a call that is not full; +inf where nobody stands in it.
  local function leads_at(list)
    if numbers(list) == 0 then return math.huge end
    if list == MANUAL and in_share() <= now then return 0 end
    local listed, found = {}, math.huge
    for _, number in ipairs(call('LRANGE', list, 0, 4 * rules.together - 1)) do
      if number ~= '' then table.insert(listed, number) end
    end
    for _, text in ipairs(listed[1] and call('HMGET', REQUESTS, unpack(listed)) or {}) do
      local record = text and decoded(text)
      -- Without one it was pushed by hand.
      if not record or goes_at_once(record) then return 0 end
      found = math.min(found, ends_for(list, record.since, record.hurry))
    end
    return listed[1] and found or 0
  end

  -- Returns the list whose first may lead the next call, nil: whichever has its turn. And where all who wait do so
  -- for company: until when, in µs. Changes nothing.
  function leading()
    local waiting = rules.together > 1 and waits() or 0
    if waiting == 0 or waiting >= rules.together or calls_alone() then return nil end
    local manual, automatic = leads_at(MANUAL), leads_at(AUTOMATIC)
    if manual <= now then return automatic > now and MANUAL or nil end
    if automatic <= now then return AUTOMATIC end
    return nil, math.min(manual, automatic)
  end

  -- The same instant for a request that has just come, as if nobody had come before; nil where nobody waits for company.
  function company_ends(request)
    local waiting = rules.together > 1 and waits() or math.huge
    if waiting > rules.together or calls_alone() then return nil end
    if waiting == rules.together or request.alone then return now end
    return math.max(now, ends_for(request.auto and AUTOMATIC or MANUAL, now_ms, hurry_of(request)))
  end
end
