#!/usr/bin/env bash
# Serves manifests/examples with three simulated engines, until interrupted.
# Needs bin/ (make build). QUIET=1 leaves out the requests to try.
set -euo pipefail
cd "$(dirname "$0")/../.."

gateway=http://127.0.0.1:8080
admin=127.0.0.1:8090
logs=$(mktemp -d)
pids=()

stop() {
	trap - EXIT INT TERM
	for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
	for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
	rm -rf "$logs"
}
trap 'stop; exit 0' INT TERM
trap stop EXIT

# answers HOST PORT PATH: whether a GET of PATH is answered with 200.
answers() {
	local status=
	{ exec 3<>"/dev/tcp/$1/$2"; } 2>/dev/null || return 1
	printf 'GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$3" "$1" >&3
	read -r -t 2 _ status _ <&3 || true
	exec 3>&-
	[ "$status" = 200 ]
}

# ready PID HOST PORT PATH LOG: waits until it answers; fails, showing LOG, where
# PID ends first.
ready() {
	local i
	for ((i = 0; i < 150; i++)); do
		if answers "$2" "$3" "$4"; then return; fi
		if ! kill -0 "$1" 2>/dev/null; then break; fi
		sleep 0.2
	done
	echo "cannot start: http://$2:$3$4 does not answer; the output was:" >&2
	cat "$5" >&2
	exit 1
}

# An address that is taken would answer in our stead.
for taken in 127.0.0.{1,2,3}:18000 "${gateway#http://}" "$admin"; do
	if { exec 3<>"/dev/tcp/${taken%:*}/${taken#*:}"; } 2>/dev/null; then
		echo "cannot start: something listens on $taken already, perhaps another make run; end it (see: ss -ltnp)" >&2
		exit 1
	fi
done

for n in 1 2 3; do
	echo "==> engine-$n on 127.0.0.$n:18000"
	bin/enginesim --listen "127.0.0.$n:18000" --name "engine-$n" --time-scale 0.1 >"$logs/engine-$n" 2>&1 &
	pids+=($!)
done
for n in 1 2 3; do ready "${pids[n - 1]}" "127.0.0.$n" 18000 /v1/models "$logs/engine-$n"; done

echo "==> gateway on $gateway, metrics on http://$admin/metrics"
bin/controller standalone --manifests manifests/examples --bind 127.0.0.1 --admin "$admin" --shutdown-drain-delay 0s \
	> >(tee "$logs/gateway") 2>&1 &
gateway_pid=$!
pids+=($gateway_pid)
ready "$gateway_pid" "${admin%:*}" "${admin#*:}" /readyz "$logs/gateway"

if [ -z "${QUIET:-}" ]; then
	cat <<EOF

The gateway serves manifests/examples; edit a file there and it follows. Try:

  # the same system prompt goes to the same engine (see X-Engine)
  curl -si $gateway/v1/chat/completions -H 'Content-Type: application/json' -d '{"model": "chat-prefix", "messages": [{"role": "system", "content": "You are an expert Python developer..."}, {"role": "user", "content": "How do I use decorators?"}]}'

  # a conversation stays on its engine, here streamed
  curl -sN $gateway/v1/chat/completions -H 'Content-Type: application/json' -H 'X-Session-ID: user-123' -d '{"model": "chat-session", "stream": true, "messages": [{"role": "user", "content": "Hello"}]}'

  # who decided what
  curl -s http://$admin/metrics | grep flexinfer_proxy_routing_

Ctrl-C ends it.
EOF
fi
wait "$gateway_pid"
