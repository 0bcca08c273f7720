#!/usr/bin/env bash
# Builds the programs of docs/sdk.md in a module outside of this repository, as
# a user of the SDK would, and fails if its build list has more than 20 modules.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
most=20

outside=$(mktemp -d)
trap 'rm -rf "$outside"' EXIT
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
