-- Drives one operation with wrk and looks at every answer.
--
-- wrk runs this once for its one thread. The arguments are name=value:
--   send      token: a line of `inputs` is the bearer token, used again and again
--             body: a line of `inputs` is the body, used again and again
--             once: the same, but each line only once
--             refresh: `inputs` are refresh tokens; each answer brings the next one of its chain
--   method, path, inputs
--   status, pattern  what a right answer has; the pattern of a refresh captures the new token
-- It prints the moments of the first thousand answers too, in microseconds.

-- Lua's own clocks count seconds, or the CPU.
local ffi = require("ffi")
ffi.cdef("typedef struct { long s; long us; } moment; int gettimeofday(moment *, void *);")
local clock = ffi.new("moment")

local function now()
  ffi.C.gettimeofday(clock, nil)
  return tonumber(clock.s) * 1e6 + tonumber(clock.us)
end

local given = {}
local inputs = {}
local first, last = 1, 0
local answers = 0

-- Globals, since the end of the run reads them from outside of the thread.
good, bad, complaint, moments = 0, 0, "", ""

function init(args)
  for _, argument in ipairs(args) do
    local name, value = argument:match("^(%w+)=(.*)$")
    given[name] = value
  end
  for line in io.lines(given.inputs) do
    last = last + 1
    if given.send == "refresh" then
      inputs[last] = line
    else
      inputs[last] = make(line)
    end
  end
end

function make(line)
  local headers = {}
  if given.send == "token" then
    headers["Authorization"] = "Bearer " .. line
    return wrk.format(given.method, given.path, headers)
  end
  if given.send == "refresh" then
    line = '{"refreshToken":"' .. line .. '"}'
  end
  headers["Content-Type"] = "application/json"
  return wrk.format(given.method, given.path, headers, line)
end

local function refuse(why)
  bad = bad + 1
  if complaint == "" then
    complaint = why:gsub("%s+", " "):sub(1, 400)
  end
end

function request()
  if first > last then
    refuse("there was nothing left to send")
    return wrk.format("GET", "/nothing-left-to-send")
  end
  local line = inputs[first]
  if given.send == "token" or given.send == "body" then
    first = first % last + 1
    return line
  end
  inputs[first] = nil
  first = first + 1
  if given.send == "refresh" then
    return make(line)
  end
  return line
end

function response(status, headers, body)
  answers = answers + 1
  if answers <= 1000 then
    moments = moments .. string.format("%.0f ", now())
  end
  local found = body:match(given.pattern)
  if status ~= tonumber(given.status) or not found then
    refuse(status .. " " .. body)
    return
  end
  good = good + 1
  if given.send == "refresh" then
    last = last + 1
    inputs[last] = found
  end
end

local threads = {}

function setup(thread)
  threads[#threads + 1] = thread
end

function done(summary, latency, requests)
  local thread = threads[1]
  local errors = summary.errors
  print("RESULT " .. string.format(
    '{"good": %d, "bad": %d, "lost": %d, "seconds": %.6f, "median": %.3f, "p99": %.3f}',
    thread:get("good"), thread:get("bad"), errors.connect + errors.read + errors.write
      + errors.timeout, summary.duration / 1e6, latency:percentile(50) / 1000,
    latency:percentile(99) / 1000))
  print("MOMENTS " .. thread:get("moments"))
  print("COMPLAINT " .. thread:get("complaint"))
end
