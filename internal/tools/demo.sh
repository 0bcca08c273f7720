#!/usr/bin/env bash
# Counts the words of Go's standard library on a cluster, and kills the leader meanwhile: make demo.
#
# osqueue dev runs three nodes, and two osqueue worker run wc -w for each .go file, as jobs of osqueue map.
# When 40 % of the jobs are done, the leader gets SIGKILL, and is started again when another node leads. At
# the end the outputs must be those of wc itself, each job must have been completed by one worker, once, and
# the cluster must have counted as many.
#
# usage: internal/tools/demo.sh [PROGRAM [FOLDER]]. It needs jq.
set -euo pipefail

osqueue=$(realpath "${1:-bin/osqueue}")
root=$(realpath "${2:-$(go env GOROOT)/src}")
port=21080
export OSQUEUE_SERVERS=127.0.0.1:$port,127.0.0.1:$((port + 1)),127.0.0.1:$((port + 2))
dir=$(mktemp -d "${TMPDIR:-/tmp}/osqueue-demo-XXXXXX")
pids=()

say() { printf 'demo: %s\n' "$*"; }
fail() {
	say "FAILED: $* (logs are in $dir)"
	exit 1
}
stop() {
	for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null && wait "$pid" || true; done
	pids=()
}
trap stop EXIT

# leader prints the name and the pid of the leader, other than $1.
leader() {
	"$osqueue" status --json 2>/dev/null |
		jq -r --arg old "${1:-}" '[.. | objects | select(.state? == "leader" and .node_id? != $old)][0] | select(. != null) | "\(.node_id) \(.pid)"' || true
}
# await repeats a command until it prints something, for a minute.
await() {
	local out
	for _ in {1..600}; do
		out=$("$@")
		[ -n "$out" ] && { echo "$out"; return; }
		sleep 0.1
	done
	fail "waited for $*"
}

find "$root" -name '*.go' -type f | sort >"$dir/files"
jobs=$(wc -l <"$dir/files")
say "counting the words of $jobs files in $root"
"$osqueue" dev --insecure --dir "$dir/cluster" --http-port $port --raft-port $((port + 10)) -- \
	--retain-completed-count 1000000 >"$dir/dev.log" 2>&1 &
pids+=($!)
await leader >/dev/null
for i in 1 2; do
	"$osqueue" worker --name "demo-$i" --commands command --sandbox none --json >"$dir/demo-$i.json" 2>"$dir/demo-$i.log" &
	pids+=($!)
done

began=$SECONDS
"$osqueue" map "$dir/files" --name demo --quiet -- wc -w >"$dir/counts" 2>"$dir/map.log" &
map=$!
while [ "$(wc -l <"$dir/counts")" -lt $((jobs * 2 / 5)) ]; do
	kill -0 $map 2>/dev/null || fail "osqueue map has ended"
	sleep 0.1
done
read -r old pid < <(await leader)
say "$(wc -l <"$dir/counts") jobs are done: SIGKILL to $old, the leader"
kill -9 "$pid"
read -r new _ < <(await leader "$old")
say "$new leads; dev starts $old again"
wait $map || fail "osqueue map: status $?"
say "$jobs jobs took $((SECONDS - began)) s"

completed=$("$osqueue" stats --json | jq '.completedTotal')
stop # the records of the workers are whole then
xargs -d '\n' wc -w <"$dir/files" | grep -v ' total$' | sed 's/^ *//' | sort >"$dir/want"
diff <(sort "$dir/counts") "$dir/want" >"$dir/diff" || fail "wc counts other words: $dir/diff"
[ "$completed" = "$jobs" ] || fail "the cluster counted $completed completions"
jq -r 'select(.outcome == "completed").jobId' "$dir"/demo-*.json | sort >"$dir/done"
[ "$(uniq <"$dir/done" | wc -l) $(wc -l <"$dir/done")" = "$jobs $jobs" ] || fail "workers completed jobs twice, or not: $dir/done"
say "every job was done once; the sums are equal"
rm -rf "$dir"
