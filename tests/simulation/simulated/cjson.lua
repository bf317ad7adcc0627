--[[
cjson: what the scripts use of Redis' cjson, in Lua: encode. Decoding is Python's (scripting.py).

KEYS     none
ARGV     none

Returns  encode(value), with cjson's rules: an empty table is an object, numbers have 14 digits
]]
local null = ...
local ESCAPES = {
  ['"'] = '\\"', ['\\'] = '\\\\', ['/'] = '\\/', ['\b'] = '\\b', ['\f'] = '\\f', ['\n'] = '\\n',
  ['\r'] = '\\r', ['\t'] = '\\t',
}

local function escaped(character)
  return ESCAPES[character] or string.format('\\u%04x', string.byte(character))
end

local function quoted(text)
  return '"' .. string.gsub(text, '[%c"\\/\127]', escaped) .. '"'
end

-- The length of an array, or nil for an object.
local function length(value)
  local most, count = 0, 0
  for key in pairs(value) do
    if type(key) ~= 'number' or key < 1 or key ~= math.floor(key) then return nil end
    most, count = math.max(most, key), count + 1
  end
  if count == 0 then return nil end
  if most > count * 2 and most > 10 then error('Cannot serialise table: excessively sparse array') end
  return most
end

local encode

local function encoded_table(value)
  local parts, most = {}, length(value)
  if most then
    for i = 1, most do parts[i] = encode(value[i]) end
    return '[' .. table.concat(parts, ',') .. ']'
  end
  for key, each in pairs(value) do
    local name = type(key) == 'number' and string.format('%.14g', key) or key
    table.insert(parts, quoted(name) .. ':' .. encode(each))
  end
  return '{' .. table.concat(parts, ',') .. '}'
end

function encode(value)
  local kind = type(value)
  if value == nil or value == null then return 'null' end
  if kind == 'string' then return quoted(value) end
  if kind == 'number' then return string.format('%.14g', value) end
  if kind == 'boolean' then return tostring(value) end
  if kind == 'table' then return encoded_table(value) end
  error('Cannot serialise ' .. kind .. ': type not supported')
end

return encode
