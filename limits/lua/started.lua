--[[
started: report measured sends when no other script of the slug is due in time.

KEYS     of the slug, see lib/slug.lua
ARGV[1]  rules     see lib/slug.lua
ARGV[2]  reports   see lib/slug.lua

Returns  {now}
]]
return { now }
