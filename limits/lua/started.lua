--[[
started: report measured sends when no other step of the slug is due in time.

KEYS     of the slug, see lib/context.lua
ARGV     nothing but the reports, see lib/batch.lua

Returns  {now}
]]
return function() return { now } end
