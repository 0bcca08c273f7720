#!/usr/bin/env python3
"""Receives the alerts of a hook of osqueue, and prints each once.

    HOOK_SECRET=whsec_… ./receiver.py [ADDRESS:PORT]

It verifies the signature and the timestamp of each delivery, and recognises repetitions by
their id. Put a proxy with TLS in front of it, and replace notify by what calls your people.
"""

import base64
import collections
import hashlib
import hmac
import http.server
import json
import os
import sys
import time

TOLERANCE = 300  # seconds
KEPT = 100_000  # ids of deliveries
BODY_MAX = 64 * 1024  # bytes

SECRET = base64.b64decode(os.environ["HOOK_SECRET"].removeprefix("whsec_"))
seen = collections.OrderedDict()


def verify(headers, body):
    """Raises ValueError unless the delivery is new and was signed with the secret."""
    stamp = headers["webhook-timestamp"] or ""
    if not stamp.isdigit() or abs(time.time() - int(stamp)) > TOLERANCE:
        raise ValueError("the timestamp is missing, or more than five minutes away")
    text = f"{headers['webhook-id']}.{stamp}.".encode() + body
    want = "v1," + base64.b64encode(hmac.new(SECRET, text, hashlib.sha256).digest()).decode()
    given = (headers["webhook-signature"] or "").split()
    if not any(hmac.compare_digest(want.encode(), g.encode()) for g in given):
        raise ValueError("no signature matches")


def notify(event):
    data = event["data"]
    words = [event["type"], data.get("state"), data.get("subject"), data.get("message")]
    print(" ".join(w for w in words if w), flush=True)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers["content-length"] or 0)
        if length > BODY_MAX:
            return self.answer(413)
        body = self.rfile.read(length)
        try:
            verify(self.headers, body)
        except ValueError as err:
            print(f"refused: {err}", file=sys.stderr, flush=True)
            return self.answer(401)
        delivery = self.headers["webhook-id"]
        if delivery not in seen:
            notify(json.loads(body))
            seen[delivery] = True  # after notify: if that fails, the event comes again
            if len(seen) > KEPT:
                seen.popitem(last=False)
        self.answer(204)

    def answer(self, status):
        self.send_response(status)
        self.end_headers()

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    host, _, port = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9100").rpartition(":")
    server = http.server.HTTPServer((host, int(port)), Handler)
    print(f"listening on {host}:{server.server_port}", file=sys.stderr, flush=True)
    server.serve_forever()
