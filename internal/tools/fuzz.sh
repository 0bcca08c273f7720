#!/usr/bin/env bash
# Runs every fuzz test of the module for some executions each: fuzz.sh [COUNTx].
# A time (5s) can be given as well, but up to Go 1.26 its end is now and then
# taken for a failure, "context deadline exceeded" (golang/go#75804).
# An input that is new is made smaller in at most 100 executions: the default is a minute of
# each, in which nothing else is tried.
# FUZZ_SKIP names packages to leave out (./dir, by spaces).
# What it finds is written to the package's testdata/fuzz by go test.
set -euo pipefail
cd "$(dirname "$0")/../.."

time=${1:-20000x}
count=0
failed=()

while IFS=: read -r file name; do
	package=./$(dirname "$file")
	if [[ " ${FUZZ_SKIP:-} " == *" $package "* ]]; then
		echo "fuzz $package $name: skipped by FUZZ_SKIP"
		continue
	fi
	echo "fuzz $package $name for $time"
	go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" -fuzzminimizetime 100x -timeout 5m "$package" || failed+=("$package $name")
	count=$((count + 1))
done < <(find . -name '*_test.go' -not -path './bin/*' -printf '%P\n' | sort |
	xargs -r grep -HoE '^func Fuzz[A-Za-z0-9_]+' | sed 's/:func /:/')

if [ ${#failed[@]} -gt 0 ]; then
	printf 'fuzz: FAILED %s\n' "${failed[@]}"
	exit 1
fi
echo "fuzz: $count fuzz tests, none failed"
