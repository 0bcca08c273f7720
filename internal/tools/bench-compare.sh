#!/usr/bin/env bash
# bench-compare.sh BASE ROUNDS [FLAG...]: measures the program of commit BASE and the one in
# bin/osqueue in turns, with the flags of tests/bench, and prints both with benchstat. The
# machine changes during a run, so that only turns compare.
set -euo pipefail

base=$1 rounds=$2
shift 2
commit=$(git rev-parse --verify --quiet "$base^{commit}") || { echo "bench-compare: no commit $base" >&2; exit 2; }
command -v jq >/dev/null || { echo 'bench-compare: install jq' >&2; exit 2; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

mkdir "$dir/tree"
git archive "$commit" | tar -x -C "$dir/tree"
(cd "$dir/tree" && GOWORK=off go build -ldflags '-s -w' -o "$dir/base" ./cmd/osqueue)
go build -o "$dir/bench" ./tests/bench

# measure NAME PROGRAM [FLAG...] adds a run to NAME.txt, in the format of Go's benchmarks.
measure() {
	local name=$1 program=$2
	shift 2
	OSQUEUE_BIN=$program "$dir/bench" -json "$@" >"$dir/run.json"
	jq -r '.figures[] | "Benchmark\(.section)/\(.name | gsub("[^A-Za-z0-9.]+"; "-")) 1 \(.value) \(.unit | gsub(" "; "-"))"' "$dir/run.json" >>"$dir/$name.txt"
}

for ((round = 1; round <= rounds; round++)); do
	echo "round $round of $rounds" >&2
	if ((round % 2)); then
		measure base "$dir/base" "$@"
		measure new "$PWD/bin/osqueue" "$@"
	else
		measure new "$PWD/bin/osqueue" "$@"
		measure base "$dir/base" "$@"
	fi
done
bin/benchstat "base=$dir/base.txt" "new=$dir/new.txt"
