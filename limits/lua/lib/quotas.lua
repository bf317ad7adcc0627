--[[
quotas: how many calls an account may have on a UTC day, over all lines.

tracking:account_quotas   account → calls a day, as workers read them from MongoDB; ! → the revision of the
                          rules with which they were read: by others nobody starts (lib/context.lua)
tracking:account_calls    account → calls of this day, of accounts that have a quota

A call counts once for each account with a number in it, whatever its courier takes for it. Its record says
`quota` by which number its account was charged. Where no account has a quota rules.rationed is absent, and
nothing is asked for.
]]
local quota_resets, quota_ends, charge, charge_back
do
  local QUOTAS, CALLED = 'tracking:account_quotas', 'tracking:account_calls'
  local left = {}

  local function account_of(number)
    return string.match(number, '@(.*)$') or 'main'
  end

  -- The calls that an account has left today, false where it has no quota.
  local function left_of(account)
    if left[account] == nil then
      local most = call('HGET', QUOTAS, account)
      left[account] = most and most - (call('HGET', CALLED, account) or 0)
    end
    return left[account]
  end

  -- µs
  function quota_resets()
    return (math.floor(now / DAY_US) + 1) * DAY_US
  end

  -- µs until which no call may be for this number, as its account's quota is used up; nil where one may.
  function quota_ends(number)
    local left_now = rules.rationed and left_of(account_of(number))
    return left_now and left_now <= 0 and quota_resets() or nil
  end

  -- A call is granted that is for this number; `charged`: the accounts that were charged for it already.
  function charge(number, record, charged)
    local account = account_of(number)
    record.quota = nil
    if charged[account] or not left_of(account) then return end
    charged[account], record.quota = true, true
    left[account] = left[account] - 1
    call('HINCRBY', CALLED, account, 1)
    call('PEXPIREAT', CALLED, quota_resets() / 1000)
  end

  -- It certainly did not leave.
  function charge_back(record)
    if not record.quota then return end
    record.quota = nil
    local today = tonumber(record.granted) >= quota_resets() - DAY_US
    local account = account_of(record.n)
    if not today or tonumber(call('HGET', CALLED, account) or 0) <= 0 then return end
    left[account] = nil
    call('HINCRBY', CALLED, account, -1)
  end
end
