--[[
survey: which slugs have work? One cheap script for all of them.

KEYS[1]  wait_slugs   set of slugs with something waiting or in flight
KEYS[2…] for each slug of ARGV: wait_list:<slug>, wait_list_automatic:<slug>
ARGV[1…] the slugs that this worker knows; a number pushed by hand is in a list but not in the set

Returns  {slug, …}    each at most once
]]
local found, slugs = {}, redis.call('SMEMBERS', KEYS[1])
for _, slug in ipairs(slugs) do found[slug] = true end
for i = 1, #ARGV do
  if not found[ARGV[i]] and redis.call('EXISTS', KEYS[2 * i], KEYS[2 * i + 1]) > 0 then
    table.insert(slugs, ARGV[i])
  end
end
return slugs
