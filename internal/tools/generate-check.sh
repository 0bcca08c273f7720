#!/usr/bin/env bash
# Generates the code of each folder with a buf.gen.yaml into a temporary
# folder and compares it with what is there: generate-check.sh DIR...
set -euo pipefail

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
stale=0

for dir in "$@"; do
	(cd "$dir" && buf generate -o "$out/$dir")
	while IFS= read -r file; do
		if ! cmp -s "$out/$file" "$file"; then
			echo "$file is not what its .proto file says: run \`make generate\`"
			stale=1
		fi
	done < <(cd "$out" && find "$dir" -type f | sort)
done
exit "$stale"
