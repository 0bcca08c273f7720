#!/usr/bin/env bash
# Renames the module in a temporary copy of this checkout, builds the copy, and builds an
# outside program that imports the renamed SDK.
set -euo pipefail
cd "$(dirname "$0")/../.."
new=example.com/acme/jobs # another last element: nothing may depend on it

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$copy"
cd "$copy"
git init -q && git add -A
internal/tools/rename-module.sh "$new"
go build -o bin/osqueue ./cmd/osqueue
if go list -deps -test ./... ./client/... ./tests/... | grep -E '^osqueue(/|$)'; then
	echo 'the packages above still have the old path'
	exit 1
fi
if git ls-files '*go.mod' | xargs grep -nE '(^|[[:space:]])osqueue(/| |$)'; then
	echo 'the lines above still have the old path'
	exit 1
fi
internal/tools/outside.sh
