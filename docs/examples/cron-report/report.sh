#!/usr/bin/env bash
# The figures of the queue, as a line for each type that has jobs. It runs as a
# job: its stdout, JSON, is the result.
set -euo pipefail

osqueue stats --json | jq -c '{
	at: (now | todate),
	types: (.types | map_values({waiting: .unclaimed, running: .inProgress, done: .completed, dead: .dead}))
}'
