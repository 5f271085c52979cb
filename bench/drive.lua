-- Drives one operation with wrk and looks at every answer. The arguments are name=value:
--   method, path, inputs   each line of `inputs` is a bearer token (GET) or a body (POST)
--   use                    again: each line many times; once; or chain: each line is a refresh
--                          token, whose answer brings the next one
--   status, pattern        what a right answer has; the pattern of a chain captures the next token

local ffi = require("ffi")
ffi.cdef("typedef struct { long s; long us; } moment; int gettimeofday(moment *, void *);")
local clock = ffi.new("moment")

local given = {}
local requests = {}
local first, last, answers = 1, 0, 0

-- Globals, since the end of the run reads them from outside of the thread.
good, bad, complaint, moments = 0, 0, "", ""

local function add(line)
  local headers = { ["Content-Type"] = "application/json" }
  if given.use == "chain" then
    line = '{"refreshToken":"' .. line .. '"}'
  elseif given.method == "GET" then
    headers = { ["Authorization"] = "Bearer " .. line }
    line = nil
  end
  last = last + 1
  requests[last] = wrk.format(given.method, given.path, headers, line)
end

function init(args)
  for _, argument in ipairs(args) do
    local name, value = argument:match("^(%w+)=(.*)$")
    given[name] = value
  end
  for line in io.lines(given.inputs) do add(line) end
end

function request()
  local found = requests[first]
  if given.use == "again" then
    first = first % last + 1
  else
    requests[first] = nil
    first = first + 1
  end
  return found
end

function response(status, headers, body)
  answers = answers + 1
  if answers <= 1000 then
    ffi.C.gettimeofday(clock, nil)
    moments = moments .. string.format("%.6f ", tonumber(clock.s) + tonumber(clock.us) / 1e6)
  end
  local found = body:match(given.pattern)
  if status ~= tonumber(given.status) or not found then
    bad = bad + 1
    complaint = (status .. " " .. body):gsub("%s+", " "):sub(1, 400)
    return
  end
  good = good + 1
  if given.use == "chain" then add(found) end
end

local thread
function setup(it) thread = it end

function done(summary, latency, requests)
  local errors = summary.errors
  print("RESULT " .. string.format(
    '{"good": %d, "bad": %d, "lost": %d, "seconds": %.6f, "median": %.3f, "p99": %.3f}',
    thread:get("good"), thread:get("bad"), errors.connect + errors.read + errors.write
      + errors.timeout, summary.duration / 1e6, latency:percentile(50) / 1000,
    latency:percentile(99) / 1000))
  print("MOMENTS " .. thread:get("moments"))
  print("COMPLAINT " .. thread:get("complaint"))
end
