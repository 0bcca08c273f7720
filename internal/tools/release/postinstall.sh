#!/bin/sh
# Makes the user of the node. systemd makes its directories, and gives them to it.
set -e
if ! getent passwd osqueue >/dev/null; then
	useradd --system --user-group --no-create-home --home-dir /var/lib/osqueue --shell /usr/sbin/nologin osqueue
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
