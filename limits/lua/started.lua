--[[
started: report measured sends when no other step of the line is due in time.

KEYS     of the line, see lib/context.lua
ARGV     nothing but the reports, see lib/batch.lua

Uses     nothing

Returns  {now}
]]
return function() return { now } end
