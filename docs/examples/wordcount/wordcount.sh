#!/usr/bin/env bash
# Counts the words of files, each in a job of its own: wordcount.sh FILE...
# The payload of a job is the name of a file, its result a number.
set -euo pipefail

# This script starts its own worker; others may run elsewhere. The payload is
# JSON, so jq removes the quotes.
osqueue worker --quiet --exec "wordcount=sh -c 'wc -w < \"\$(jq -r .)\"'" &
worker=$!
trap 'kill $worker; wait $worker' EXIT

ids=()
for file in "$@"; do
	ids+=("$(jq -n --arg file "$(realpath "$file")" '$file' | osqueue submit wordcount -)")
done

# A line for each job, with the result at its end; it fails if a job has failed.
osqueue job wait "${ids[@]}" | awk -F'\t' '{ sum += $NF } END { print sum }'
