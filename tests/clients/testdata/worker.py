"""A worker for the tests. Each handler notes in the file LEDGER that it has begun: type, id, attempt, token.

OWN is the end of the names that belong to the test.
"""
import logging
import os
import time

from osqueue import Client, Failure, Snooze, Worker

own = os.environ.get("OWN", "")
logging.basicConfig(level=logging.INFO, format="%(message)s")
w = Worker(Client(), int(os.environ.get("CONCURRENCY", 4)), os.environ["NAME"],
           float(os.environ.get("LEASE_MS", 0)) / 1000, float(os.environ.get("POLL_MS", 2000)) / 1000, stop_timeout=float(os.environ.get("STOP_MS", 20000)) / 1000)


def handle(type, handler):
    def noted(job):
        with open(os.environ["LEDGER"], "a") as f:
            f.write("%s %s %s %d %d\n" % (w.name, type, job.id, job.attempts, job.token))
        return handler(job)
    w.handle(type + own, noted)


def square(job):
    time.sleep(0.02)
    return {"n": job.payload, "square": job.payload ** 2}


def gate(job, told=False):
    told or job.progress(50, "at the gate")
    while not os.path.exists(job.payload):
        time.sleep(0.02)
    return {"by": w.name, "why": job.why}


def until_stopped(job):
    job.stop.wait(60)
    raise RuntimeError("ended, " + job.why)


def broken(job):
    raise ValueError("no such luck: " + job.payload)


def hopeless(job):
    raise Failure("never again", retryable=False)


def later(job):
    raise Failure("in an hour", delayMs=3600000)


def snooze(job):
    raise Snooze(3600)


def throttle(job):
    w.client.throttle(job, "api" + own, 3600)


def odd(job):
    raise Failure("an odd delay", delayMs=job.payload)


def babble(job):
    job.progress(50, {"far": "x" * 100000})
    return gate(job, told=True)


def talk(job):
    for i in range(30):
        job.log("%d é" % i)
        time.sleep(0.1)
    return gate(job)


handle("talk", talk)
handle("square", square)
handle("gate", gate)
handle("until-stopped", until_stopped)
handle("broken", broken)
handle("hopeless", hopeless)
handle("later", later)
handle("odd", odd)
handle("snooze", snooze)
handle("throttle", throttle)
handle("babble", babble)
handle("no-json", lambda job: object())
handle("too-much", lambda job: "x" * 5000000)
print("ready", flush=True)
raise SystemExit(1 if w.run() else 0)
