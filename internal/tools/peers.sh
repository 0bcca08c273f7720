#!/usr/bin/env bash
# Installs the servers that tests/peers measures:
#
#   peers.sh FOLDER      builds nats-server into FOLDER
#
# The others are packages of Debian, which it installs if it runs as root. A server that cannot
# be installed is named, and the benchmark skips it.
set -uo pipefail
folder=$1
root=$(cd "$(dirname "$0")/../.." && pwd)

if [ ! -x "$folder/nats-server" ]; then
	echo "building nats-server (pinned in tests/peers/go.mod) into $folder"
	mkdir -p "$folder"
	(cd "$root/tests/peers" && GOWORK=off GOFLAGS=-mod=mod timeout 900 go build -buildvcs=false \
		-o "$folder/nats-server" github.com/nats-io/nats-server/v2) ||
		echo "nats-server could not be built: bench-peers skips NATS"
fi

missing=()
command -v redis-server >/dev/null || missing+=(redis-server)
command -v beanstalkd >/dev/null || missing+=(beanstalkd)
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null || missing+=(postgresql)
if [ ${#missing[@]} -eq 0 ]; then
	exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
	echo "not installed, bench-peers skips them: ${missing[*]} (install them, or run this as root on Debian)"
	exit 0
fi
echo "installing the packages ${missing[*]} as root; their services are not started"
# invoke-rc.d starts no service in run level 1. The benchmark starts its own processes.
export RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive
timeout 120 apt-get update -qq
for package in "${missing[@]}"; do
	timeout 300 apt-get install -y -qq --no-install-recommends "$package" >/dev/null ||
		echo "$package could not be installed: bench-peers skips it"
done
