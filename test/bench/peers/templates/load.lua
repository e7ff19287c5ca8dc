-- The requests come from the directory of the run, so that every client sends
-- the same bytes; the figures go back as one line.
local requests = {}
function init()
	for i = 1, {{.Sessions}} do
		local f = assert(io.open("{{.Dir}}/request-" .. (i - 1), "rb"))
		requests[i] = f:read("*a")
		f:close()
	end
end
local i = math.random({{.Sessions}})
function request()
	i = i % {{.Sessions}} + 1
	return requests[i]
end
function done(summary, latency)
	local e = summary.errors
	io.write(string.format("FIGURES %d %d %d %f %f\n", summary.requests, summary.duration,
		e.connect + e.read + e.write + e.status + e.timeout,
		latency:percentile(50), latency:percentile(99)))
end
