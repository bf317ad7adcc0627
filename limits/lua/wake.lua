--[[
wake: the quota of an account was changed, so those of its numbers are due that wait for the next day. The line's
drainer is asked for by the next sweep.

KEYS     of the line, see lib/context.lua
ARGV     behind the reports, see lib/batch.lua:
  account
  passed   how many of those that wait until then were looked at and left

Uses     context: digits
         memory: change_later, delete_signs, later
         quotas: quota_resets
         waiting: due_of_quota

Returns  {now, woken, passed}   passed: with this ask again; '' where all were looked at
]]
local AT_ONCE = 1000

return function(account, passed)
  if later() == 0 then return { now, 0, '' } end
  local first, last = due_of_quota(quota_resets())
  local found = call('ZRANGEBYSCORE', LATER, first, last, 'LIMIT', passed, AT_ONCE)
  local due = {}
  for _, number in ipairs(found) do
    if (string.match(number, '@(.*)$') or 'main') == account then
      due[#due + 1], due[#due + 2] = now_ms, number
    end
  end
  if #due > 0 then
    change_later('ZADD', LATER, 'XX', unpack(due))
    delete_signs(DRAINER)
  end
  return { now, #due / 2, #found == AT_ONCE and digits(passed + #found - #due / 2) or '' }
end
