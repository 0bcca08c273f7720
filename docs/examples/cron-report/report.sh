#!/usr/bin/env bash
# Prints the figures of the queue as JSON, with one entry per type. It runs as a
# job: its stdout is the result.
set -euo pipefail

osqueue stats --json | jq -c '{
	at: (now | todate),
	types: (.types | map_values({waiting: .unclaimed, running: .inProgress, done: .completed, dead: .dead}))
}'
