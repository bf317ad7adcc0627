--[[
survey: which slugs have work? One cheap script for all of them.

KEYS[1]  wait_slugs   set of slugs with something waiting or in flight
ARGV[1]  the slugs that this worker knows, with a blank between two; a number pushed by hand is in a
         list but not in the set. Their lists are named from them, as in limits/keys.py

Returns  {slug, …}    each at most once
]]
local found, slugs = {}, redis.call('SMEMBERS', KEYS[1])
for _, slug in ipairs(slugs) do found[slug] = true end
for slug in string.gmatch(ARGV[1], '%S+') do
  if not found[slug]
    and redis.call('EXISTS', 'wait_list:' .. slug, 'wait_list_automatic:' .. slug) > 0 then
    table.insert(slugs, slug)
  end
end
return slugs
