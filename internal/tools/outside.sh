#!/usr/bin/env bash
# Builds the two programs of docs/sdk.md in a module outside of this repository, as
# a user of the SDK would, and runs them against "osqueue dev": the second is the worker
# of the first one's job. It needs bin/osqueue. Fails if the build list has more than 20 modules.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
most=20

outside=$(mktemp -d)
running=()
finish() {
	for pid in "${running[@]}"; do
		kill "$pid" 2>/dev/null && wait "$pid" || true
	done
	rm -rf "$outside"
}
trap finish EXIT
sdk=$(cd "$root/client" && GOWORK=off go list -m)

# A program is an indented block that begins with its package clause.
awk -v out="$outside" '
	/^    package main$/ { n++; inside = 1; system("mkdir " out "/program" n) }
	inside && /^[^ ]/ { inside = 0 }
	inside { sub(/^    /, ""); print > (out "/program" n "/main.go") }
' "$root/docs/sdk.md"

cd "$outside"
export GOWORK=off GOFLAGS=-mod=mod
go mod init example.com/outside 2>/dev/null
go mod edit -require "$sdk@v0.0.0" -replace "$sdk=$root/client"
go vet ./...
programs=$(find . -name main.go | wc -l)
modules=$(go list -m all | wc -l)
echo "$programs programs of docs/sdk.md build as a module of their own; its build list has $modules modules"
if [ "$programs" -lt 2 ]; then
	echo "docs/sdk.md has lost a program: want 2"
	exit 1
fi
if [ "$modules" -gt "$most" ]; then
	echo "more than $most modules:"
	go list -m all
	exit 1
fi

# Only the context of this cluster may lead the programs to it.
unset OSQUEUE_SERVERS OSQUEUE_CA OSQUEUE_TOKEN OSQUEUE_DATA
export XDG_CONFIG_HOME=$outside/config
go build -o worker ./program2
go build -o producer ./program1
port=$((20000 + RANDOM % 10000))
export OSQUEUE_CONTEXT=dev-$port
"$root/bin/osqueue" dev --nodes 1 --http-port "$port" --raft-port $((port + 5)) --dir "$outside/dev" >dev.log 2>&1 &
running+=($!)
for ((i = 0; i < 150; i++)); do
	grep -q 'is up' dev.log && break
	sleep 0.2
done
./worker >worker.log 2>&1 &
running+=($!)
if ! out=$(timeout 90 ./producer) || ! grep -q '^completed 3 <nil>$' <<<"$out"; then
	echo "the first program of docs/sdk.md does not get the result 3 of the second one; it printed: $out"
	cat dev.log worker.log
	exit 1
fi
echo "the programs of docs/sdk.md ran against osqueue dev: $out"
