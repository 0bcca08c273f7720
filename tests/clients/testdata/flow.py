"""Goes through every call of the client once, and prints what came of it as one JSON object."""
import json, time

from osqueue import Client, Error, JobError

q, seen = Client(), {}


def error(call, *args, **kw):
    try:
        call(*args, **kw)
    except Error as e:
        return {"tag": e.tag, "status": e.status, "committed": e.committed, "leaseLost": e.lease_lost}
    return None


def ending(id):
    try:
        return q.wait(id, 30.0)["status"]
    except JobError as e:
        return [e.tag, e.job["id"] == id, str(e).replace(id, "X")]


id = q.submit("flow", {"n": 1}, priority=5, max_attempts=4, tags=["a"])
seen["sameId"] = q.submit("flow", {"n": 1}, id=id, priority=5, maxAttempts=4, tags=["a"]) == id
seen["idTaken"] = error(q.submit, "flow", {"n": 2}, id=id)
job = q.get(id)
seen["got"] = {m: job[m] for m in ("type", "status", "payload", "priority", "maxAttempts", "tags")}
seen["sameKey"] = q.submit("keyed", 1, key="key-1") == q.submit("keyed", 1, key="key-1")
seen["otherKey"] = q.submit("keyed", 1, key="key-2") != q.submit("keyed", 1, key="key-1")
seen["keyConflict"] = error(q.submit, "keyed", 2, key="key-1")
many = [{"type": "many", "payload": i} for i in range(2500)]
seen["many"] = len(set(q.submit_many(many, key="all")))
seen["manyAgain"] = q.submit_many(many, key="all") == q.submit_many(many, key="all")
big = q.submit_many([{"type": "big", "payload": "x" * 300000, "id": "big-%d" % i} for i in range(5)])
seen["big"] = big == ["big-%d" % i for i in range(5)]
seen["none"] = q.submit_many([])
seen["oddId"] = q.get(q.submit("odd", id="a/b?c=%2F"))["id"]
seen["unknownJob"] = error(q.get, "no-such-job")

first = q.claim("w1", ["flow"], wait=5.0, lease=60.0, request="r1")
again = q.claim("w1", ["flow"], wait=5.0, lease=60.0, request="r1")
seen["claimedAgain"] = [j.id for j in first] == [id] and [j.token for j in first] == [j.token for j in again]
seen["emptyClaim"] = len(q.claim("w1", ["none"]))
first[0].progress(40, "4 of 10")
seen["beat"] = q.heartbeat("w1", first)[0]["status"]
seen["progress"] = q.get(id)["progress"]["percent"]
seen["released"] = q.report(first[0], "release")["status"]
second = q.claim("w2", ["flow"], max=10)
seen["tokenGrows"] = second[0].token > first[0].token
seen["late"] = error(q.report, first[0], "complete", result="late")
seen["completed"] = q.report(second[0], "complete", result={"by": "w2"})["status"]
seen["completedTwice"] = q.report(second[0], "complete", result={"by": "w2"})["status"]
seen["lateBeat"] = q.heartbeat("w1", first)[0]["status"]
seen["result"] = q.wait(id, 5.0)["result"]

later = q.submit("later", delay_ms=3600000)
try:
    q.wait(later, 0.3)
except TimeoutError:
    seen["waitEnds"] = True
seen["cancelled"] = q.cancel(later)
seen["cancelledJob"] = ending(later)
dead = q.submit("dead")
q.report(q.claim("w1", ["dead"])[0], "fail", error="hopeless", retryable=False)
seen["deadJob"] = ending(dead)
seen["stats"] = q.stats(types=True)["types"]["many"]["unclaimed"]

seen["misspelt"] = error(q.submit, "flow", 1, max_atempts=5)["tag"]
away = Client(["127.0.0.1:2"], retry_for=0.3)
seen["away"] = error(away.submit, "x")
began, away = time.monotonic(), Client(["127.0.0.1:2", "127.0.0.1:3"], retry_for=60.0)
seen["awayRead"] = error(away.get, "x")["committed"]
if time.monotonic() > began + 30: seen["awayRead"] = None
for name, server in ("bareHost", "255.255.255.255"), ("url", "http://255.255.255.255"):
    try:
        Client([server], retry_for=0.1).get("x")
    except Error as e:
        seen[name] = "http://255.255.255.255:8080: " in str(e)
print(json.dumps(seen))
