--[[
batch: runs one operation for every request of the script, in their order.

KEYS     one for each slug, see lib/slug.lua
ARGV[1]  rules     how many there are
ARGV[2]  width     values of each request: 2 + its arguments
ARGV[3…] rules     JSON
then     laws      which of the rules holds, from 1, for each slug
then     requests  each: index of its slug, reports, arguments (ARGV[3…] of the operation)

When all are done, what is projected for operators is written once for each slug.

Returns  {reply, …}  one for each request, as the operation's header says; an error in the place of
                     what could not be done, because a key of that slug is not what it should be
]]
-- An error that nobody catches would end the script before the others' counters and expiries.
local function attempt(what, at)
  local done, reply = pcall(what, at)
  if done or type(reply) == 'table' then return reply end
  return redis.error_reply(reply)
end

local laws_before, width, replies = 2 + ARGV[1], tonumber(ARGV[2]), {}
local function request(at)
  local index = tonumber(ARGV[at])
  turn_to(index, 2 + ARGV[laws_before + index])
  note(ARGV[at + 1])
  return operation({ unpack(ARGV, at, at + width - 1) })
end

for at = laws_before + #KEYS + 1, #ARGV, width do
  table.insert(replies, attempt(request, at))
end
for _, seen in pairs(slugs) do
  turn_to(seen.index, seen.at)
  attempt(close)
end
return replies
