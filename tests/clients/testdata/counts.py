"""Makes one call of each kind that is counted, and prints what was counted as one JSON object."""
import json

from osqueue import Client

events = []


def observe(event, job, seconds):
    events.append([event, job and job.type, seconds >= 0])
    raise ValueError("it must not fail the call")


q = Client(observe=observe)
q.submit("a", headers={"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
q.submit_many([{"type": "b"}] * 3)
job = q.claim("w", ["a"])[0]
line = str(job).replace(job.id, "ID")
q.report(job, "complete")
for job, action, body in zip(q.claim("w", ["b"], max=3), ("fail", "release", "suspend"), ({}, {}, {"forMs": 60000})):
    q.report(job, action, **body)
counts = q.counts()
seconds = counts.pop("run_seconds")
print(json.dumps({"counts": counts, "timed": seconds > 0, "events": events, "line": line, "metrics": q.metrics()}))
