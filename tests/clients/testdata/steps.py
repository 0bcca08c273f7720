"""Runs a worker whose jobs keep steps, wait and have children, sends them signals, and prints what came of it as one
JSON object. OWN is the end of the names that belong to the test.
"""
import json, os, threading, time, urllib.request

from osqueue import Client, JobError, Suspend, Worker

q, own, seen, called = Client(), os.environ["OWN"], {}, []
w = Worker(q, 4, "steps" + own)


def note(name, value=None):
    called.append(name)
    return value


def fan(job):
    charge = job.step("charge", lambda: note("charge", {"id": "ch_%d" % job.attempts}))
    if job.attempts == 1: raise RuntimeError("after the step")
    none = job.step("none", lambda: note("none"))
    job.sleep(0.3)
    job.step("slept", lambda: note("slept"))
    job.sleep(0.3)
    try: job.wait_signal("never", 0.3)
    except TimeoutError: late = True
    except Exception: late = "a suspension was caught"
    job.add_children("parts", [{"type": "child" + own, "payload": i, "max_attempts": 1} for i in (1, 2, 3)])
    parts = [[c["status"], c.get("result")] for c in job.wait_children("parts")]
    by = job.wait_signal("approved", 60)
    return {"charge": charge, "none": none, "late": late, "parts": parts, "by": by}


def child(job):
    if job.payload == 2: raise RuntimeError("no luck")
    return job.payload * 10


def total(job):
    return [job.parents["fan"]["status"], job.parents["fan"]["result"]["by"]]


def linked(job): return job.wait_signal("go", 60)


def large(job): job.step("large", lambda: note("large", "x" * 70000))


def no_json(job): job.step("odd", lambda: note("odd", object()))


def lost(job): raise Suspend(batchId="nope" + own)


def orphan(job): job.wait_children("none")


for name, handler in {"fan": fan, "child": child, "total": total, "linked": linked, "large": large, "no-json": no_json,
                      "lost": lost, "orphan": orphan}.items():
    w.handle(name + own, handler)
thread = threading.Thread(target=w.run)
thread.start()


def awaiting(id, name):
    while q.get(id).get("awaits") != name: time.sleep(0.02)


try:
    flow = q.flow({"fan": {"type": "fan" + own, "backoff": {"kind": "none"}},
                   "total": {"type": "total" + own, "after": ["fan"]}}, "flow" + own)
    awaiting(flow + ".fan", "approved")
    seen["blocked"] = q.get(flow + ".total")["status"]
    try: q.wait_batch(flow, 0.3)
    except TimeoutError: seen["waitEnds"] = True
    seen["signal"] = [q.send_signal(flow + ".fan", "approved", {"by": "ann"}, "s1"),
                      q.send_signal(flow + ".fan", "approved", {"by": "bob"}, "s1") in ("unclaimed", "in_progress", "completed")]
    batch = q.wait_batch(flow, 60)
    seen["batch"] = [batch["total"], batch["completed"], batch["pending"]]
    job = q.get(flow + ".fan")
    seen["fan"], seen["attempts"] = job["result"], job["attempts"]
    seen["total"] = q.get(flow + ".total")["result"]

    id = q.submit("linked" + own)
    awaiting(id, "go")
    path = q.make_link(id, "go", 60)["path"]
    server = os.environ["OSQUEUE_SERVERS"].split(",")[0]
    urllib.request.urlopen(urllib.request.Request("http://" + server + path, method="POST", data=b"")).read()
    seen["linked"] = q.wait(id, 60).get("result")

    id = q.submit("child" + own, 1, delay_ms=3600000)
    changed = q.edit(id, payload=7, delay_ms=0, priority=3)
    seen["edited"] = [changed["revision"], q.wait(id, 60)["result"], q.get(id)["priority"]]

    for name in "large", "no-json", "lost", "orphan":
        try: q.wait(q.submit(name + own), 60)
        except JobError as e: seen[name] = [e.job["status"], e.job["attempts"], e.job["lastError"].split(":")[0].replace(own, "")]
finally:
    w.stop()
    thread.join()
seen["called"] = called
print(json.dumps(seen))
