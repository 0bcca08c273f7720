#!/usr/bin/env bash
# Runs every fuzz test of the module for a short time each: fuzz.sh [TIME].
# What it finds is written to the package's testdata/fuzz by go test.
set -euo pipefail
cd "$(dirname "$0")/../.."

time=${1:-5s}
count=0
failed=()

while IFS=: read -r file name; do
	package=./$(dirname "$file")
	echo "fuzz $package $name for $time"
	go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" -timeout 5m "$package" || failed+=("$package $name")
	count=$((count + 1))
done < <(find . -name '*_test.go' -not -path './bin/*' -printf '%P\n' | sort |
	xargs -r grep -HoE '^func Fuzz[A-Za-z0-9_]+' | sed 's/:func /:/')

if [ ${#failed[@]} -gt 0 ]; then
	printf 'fuzz: FAILED %s\n' "${failed[@]}"
	exit 1
fi
echo "fuzz: $count fuzz tests, none failed"
