--[[
batch: runs one operation for every request of the script, in their order.

KEYS     20 for each slug, see lib/slug.lua
ARGV[1]  slugs     how many there are
ARGV[2]  width     values of each request: 2 + its arguments
ARGV[3…] rules     JSON, one for each slug
then     requests  each: index of its slug, reports, arguments (ARGV[3…] of the operation)

When all are done, what is projected for operators is written once for each slug.

Returns  {reply, …}  one for each request, as the operation's header says
]]
local width, replies = tonumber(ARGV[2]), {}
for at = 3 + ARGV[1], #ARGV, width do
  turn_to(tonumber(ARGV[at]))
  note(ARGV[at + 1])
  table.insert(replies, operation({ unpack(ARGV, at, at + width - 1) }))
end
for index in pairs(slugs) do
  turn_to(index)
  close()
end
return replies
