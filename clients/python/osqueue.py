#!/usr/bin/env python3
"""A client and a worker for osqueue, in one file that needs nothing but Python 3.8 or newer. As a program:

    osqueue.py submit TYPE [JSON] | get ID | wait ID | cancel ID | stats | worker TYPE=MODULE:FUNCTION...
OSQUEUE_SERVERS, OSQUEUE_CA (a file) and OSQUEUE_TOKEN name the nodes, their CA and the access token; without them
they are those of a context of "osqueue context" (OSQUEUE_CONTEXT, else the current one). Times are in seconds.
Members of jobs may be in snake case: delay_ms is delayMs."""
import contextlib, hashlib, importlib, io, json, logging, os, random, re, signal, socket, ssl, sys, threading, time
import traceback, uuid
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import quote, urlsplit

SERVERS = "127.0.0.1:8080,127.0.0.1:8081,127.0.0.1:8082"  # without OSQUEUE_SERVERS
LOST = ("not_found", "not_running", "wrong_worker", "stale_token", "lease_expired", "timed_out")
log, now, EVER = logging.getLogger("osqueue"), time.monotonic, float("inf")
ENDS = {"complete": "completed", "fail": "failed", "release": "released", "suspend": "suspended"}
EVENTS = ("enqueued", "claimed", *ENDS.values())
COUNTER = "# HELP osqueue_client_{0} {1}\n# TYPE osqueue_client_{0} counter\nosqueue_client_{0} {2}\n"
LOOPBACK = re.compile(r"(https?://)?(localhost|127\.[0-9.]+|\[::1\]):")
TRACEPARENT = re.compile("[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


class Error(Exception):
    """A call that failed. `status` is that of the last answer (0: there was none), `tag` the server's name for its
    refusal. `committed` is "no" if the write certainly did not take place, else "unknown": send the same again."""
    def __init__(self, message, status=0, tag="", committed="no"):
        super().__init__(message)
        self.status, self.tag, self.committed, self.lease_lost = status, tag, committed, tag in LOST  # by the caller
        self.refused = tag.startswith("too_many_") or 400 <= status < 500 and status not in (408, 425, 429)


class Failure(Exception):
    """Failure(text, retryable=False) raised by a handler makes the job dead at once; Failure(text, delayMs=5000) says
    when the next attempt comes, instead of the job's backoff. Other exceptions fail the attempt, too."""
    def __init__(self, text, retryable=True, delayMs=None):
        super().__init__(text)
        self.how = dict({} if delayMs is None else {"delayMs": max(0, round(delayMs))}, retryable=bool(retryable))


class Snooze(Exception):
    """Raised by a handler that cannot do the job yet: it is released, and runs again after so many seconds. The attempt
    does not count."""
    def __init__(self, seconds):
        super().__init__("snoozed for %s s" % seconds)
        self.how = {"delayMs": max(0, round(seconds * 1000))}


class Suspend(BaseException):
    """Raised by `sleep`, `wait_signal` and `wait_children` of a job that has to wait. A handler lets it pass, and
    `except Exception` does: the attempt ends without being counted, and the worker is free."""
    def __init__(self, **until):
        super().__init__("suspended: %s" % until)
        self.how = until


SEALED = ("the payload is encrypted, and this client has no keys: run the type with a worker in Go, or with "
          "osqueue worker --keys")
SEALED_FILE = ("the artefact %s of the job %s is encrypted, and this client has no keys: read it with a client in Go, "
               "or with osqueue job get --keys")


class JobError(Error):
    """Raised by `wait`: `job`, a dict, is dead, cancelled or expired."""
    def __init__(self, job):
        text = "job %s is %s" % (job["id"], job["status"])
        super().__init__(": ".join(filter(None, (text, job.get("lastError")))), tag=job["status"])
        self.job = job


def resolve(servers=None, ca=None, token=None, context=None):
    """The servers, CA (PEM) and token: as given, else of the environment, else of a context. One that is not named
    counts only if the servers are its own: its token must not reach another cluster."""
    env, servers = os.environ, servers or os.environ.get("OSQUEUE_SERVERS", "").replace(",", " ").split()
    token, file, name = token or env.get("OSQUEUE_TOKEN"), env.get("OSQUEUE_CA"), context or env.get("OSQUEUE_CONTEXT")
    ca = ca or file and _read(file, None)
    home = os.path.join(env.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "osqueue")
    chosen = name or _read(os.path.join(home, "current")).strip()
    path = os.path.join(home, "contexts", (chosen or "dev") + ".json")
    found = json.loads(_read(path, None if chosen and (name or not servers) else "{}"))
    if found and os.name != "nt" and os.stat(path).st_mode & 0o077: raise ValueError("others may open " + path)
    bare = lambda server: server.strip().lower().rpartition("://")[2].rstrip("/")
    if not name and not set(map(bare, servers)) <= set(map(bare, found.get("servers", []))): found = {}
    servers = servers or found.get("servers") or SERVERS.split(",")
    return servers, ca or found.get("ca"), token or found.get("token")


def _read(path, otherwise=""):
    """The text of a file; `otherwise`, unless that is None, if there is no such file."""
    try:
        with open(path) as file: return file.read()
    except FileNotFoundError:
        if otherwise is None: raise
        return otherwise


class Client:
    """The nodes of a cluster. It finds the leader, and repeats calls for up to `retry_for`; what makes that
    harmless goes along: an id, a request id, a token or an idempotency key. Threads may share it. It counts jobs, and
    calls observe(event, job, seconds) for each: event is one of EVENTS, job None for "enqueued"."""
    def __init__(self, servers=None, attempt_timeout=5.0, retry_for=30.0, ca=None, token=None, context=None,
                 observe=None, parse_float=None):
        servers, ca, self._token = resolve(servers, ca, token, context)
        self._tls = ssl.create_default_context(cadata=ca or None)
        named = [re.sub(r"^([^/:]+|\[[^]/]+\])(?=/|$)", r"\1:8080", s.strip()) for s in servers if s.strip()]
        for server in named:
            if self._token and not ca and not re.match("https?://", server) and not LOOPBACK.match(server):
                raise ValueError("%s: the access token would be sent without TLS: give ca or OSQUEUE_CA, or write "
                                 "http://%s if you want that" % (server, server))
        self._servers = [(s if "://" in s else "http%s://%s" % ("s" if ca else "", s)).rstrip("/") for s in named]
        self._attempt_timeout, self._retry_for = attempt_timeout, retry_for
        self._lock, self._leader, self._term, self._parse_float = threading.Lock(), None, 0, parse_float
        self._turns, self._members, self._asked = (), self._servers, 0.0  # who may be called; of /status, and when
        self._observe, self._counting, self._counts = observe, threading.Lock(), dict.fromkeys(EVENTS, 0)
        self._counts["run_seconds"] = 0.0

    def submit(self, type, payload=None, key=None, **members):
        """Enqueues a job and returns its id; under a `unique_key` that another job holds, that job's. The same call
        with the same `key` within 24 h, also by another process, is one call."""
        job = _job(dict(members, type=type, payload=payload), key)
        return self._count("enqueued", [None], self._call("jobs", want="jobId", body=job, key=key))

    def submit_many(self, jobs, key=None):
        """Enqueues jobs, dicts with the arguments of `submit`, and returns their ids. Up to 1000 of them, or 1 MB, are
        enqueued all or none; more are cut in half. Jobs with ids, or all with the key, may be sent again."""
        jobs = [_job(j, key) for j in jobs]
        if len(jobs) > 1000 or len(jobs) > 1 and len(json.dumps(jobs)) > 1000000:
            half = len(jobs) // 2
            return self.submit_many(jobs[:half], key and key + ".0") + self.submit_many(jobs[half:], key and key + ".1")
        ids = self._call("jobs", "batch", want="jobIds", body={"jobs": jobs}, key=key) if jobs else []
        return self._count("enqueued", [None] * len(ids), ids)

    def get(self, id):
        """The job as it is now, a dict."""
        return self._call("jobs", id)

    def wait(self, id, timeout=EVER):
        """Waits until the job has completed, and returns it. JobError: it is dead, cancelled or expired. TimeoutError:
        it has not ended in that time."""
        end = now() + timeout
        while True:
            hold = max(0.0, min(15.0, end - now()))
            job = self._call("jobs", id, query="?waitMs=%d" % (hold * 1000), wait=hold, within=end - now() + 5)
            if job["status"] == "completed": return job
            if job["status"] in ("dead", "cancelled", "expired"): raise JobError(job)
            if now() >= end: raise TimeoutError("job %s is %s" % (id, job["status"]))
            time.sleep(0.02)  # should a server answer at once

    def stats(self, types=False):
        """The figures of the queue, a dict; with `types` also those of each type."""
        return self._call("stats", query="?types=true" if types else "")

    def cancel(self, id, key=None):
        """Takes a job back and returns its status: one that runs is cancelled when its worker has ended the attempt."""
        return self._call("jobs", id, "cancel", want="status", body={}, key=key or str(uuid.uuid4()))

    def edit(self, id, key=None, **members):
        """Changes a job that waits, or with retry=True one that is dead, cancelled or expired: payload, priority, tags,
        limits, run_at, delay_ms, max_attempts; with a `revision` only if it is that. Returns status and revision."""
        return self._call("jobs", id, body=_wire(members), method="PATCH", key=key or str(uuid.uuid4()))

    def flow(self, steps, id=None):
        """Enqueues jobs that run after each other, all or none, and returns the id of their batch. `steps` has the
        arguments of `submit` by the name of the step; `after` has names of earlier ones, whose results are in `parents`
        of the job. The id of a step's job is that of the batch, a point and the name."""
        id, jobs = id or str(uuid.uuid4()), []
        for name, step in steps.items():
            after = step.get("after") or []
            ids = {"id": "%s.%s" % (id, name), "after": ["%s.%s" % (id, a) for a in after]}
            jobs.append(_wire(dict(step, step=name, afterNames=after, **ids)))
        return self._count("enqueued", [None] * len(jobs), self._call("batches", want="batchId",
                                                                      body={"id": id, "jobs": jobs}))

    def wait_batch(self, id, timeout=EVER):
        """Waits until all jobs of a batch have ended, however they have, and returns its figures, a dict."""
        end, pause = now() + timeout, 0.05
        while True:
            batch = self.batch(id)
            if batch.get("endedAt"): return batch
            if now() >= end: raise TimeoutError("%d jobs of the batch %s have not ended" % (batch["pending"], id))
            pause = time.sleep(min(pause, max(0.0, end - now()))) or min(pause * 2, 1.0)

    def send_signal(self, job, name, value=None, id=None):
        """Sends a signal to a job that has not ended, by its id, and returns its status. The job gets a signal with the
        same `id` once."""
        body = dict({} if value is None else {"value": value}, id=id or str(uuid.uuid4()))
        return self._call("jobs", job, "signals", name, want="status", body=body)

    def make_link(self, job, signal, seconds=0.0):
        """Makes a link, valid for a week or so long, by which anybody may send the job that signal, once. Returns a
        dict; `path` is that of a page on any node."""
        body = {"signal": signal, "forMs": round(seconds * 1000)}
        return self._call("jobs", job, "links", body=body)

    def upload(self, name, data):
        """Sends the bytes of an artefact, up to 5 GiB: bytes, or a file in binary mode, which is read twice from where
        it is. They are not encrypted. Returns an item of `artefacts` for the job that gets it, within a day."""
        file, sum = data if hasattr(data, "seek") else io.BytesIO(data), hashlib.sha256()
        start, status = file.tell(), 0
        size = file.seek(0, 2) - start
        if size > 5 << 30: raise ValueError("the artefact %s has %d bytes: at most 5 GiB are allowed" % (name, size))
        file.seek(start)
        for part in iter(lambda: file.read(1 << 20), b""): sum.update(part)
        made = self._call("artefacts", body={"size": size, "sha256": sum.hexdigest()}, key=str(uuid.uuid4()))

        def put(server, path, _, headers, limit, tls, method="PUT"):
            file.seek(start)
            return _exchange(server, path, file, dict(headers, **{"Content-Length": str(size)}), limit, tls, method)
        url, _, query = made.get("url", "").partition("?")
        try:  # the store gets no token, and does not have a certificate of the cluster
            if url: status = put(url, "?" + query, None, made.get("headers", {}), 60.0, None)[0]
        except (OSError, HTTPException) as e: log.debug("%s: %s", url, e)
        if status // 100 != 2:  # a node can reach the store in any case
            self._call("artefacts", made["id"], query="?minLsn=" + made["lsn"], method="PUT", wait=55.0, send=put)
        return {"name": name, "id": made["id"]}

    def artefacts(self, id):
        """The artefacts of a job, dicts with name, size and sha256."""
        return self._call("jobs", id, "artefacts", want="artefacts")

    def open_artefact(self, id, name):
        """Opens an artefact of a job: a file in binary mode that cannot seek. Reading it to its end raises an Error if
        the bytes are not those that were uploaded."""
        listed = self._call("jobs", id, "artefacts")
        found = [a for a in listed["artefacts"] if a["name"] == name]
        if not found: raise Error("the job %s has no artefact %s" % (id, name), 404, "not_found")
        if found[0].get("sealed"): raise Error(SEALED_FILE % (name, id), tag="sealed")

        def reopen(at):
            got, part = [], {"Range": "bytes=%d-" % at} if at else {}

            def get(server, path, _, headers, limit, tls, method):
                conn, answer = _request(server, path, None, dict(headers, **part), limit, tls)
                if answer.status == 302:  # to the store, which gets no token
                    url, _, query = answer.headers["Location"].partition("?")
                    conn.close()
                    conn, answer = _request(url, "?" + query, None, part, limit, None)
                if answer.status == (206 if at else 200): return got.append((conn, answer)) or (200, b"")
                with contextlib.closing(conn): return max(answer.status, 300), answer.read(1 << 16)
            self._call("jobs", id, "artefacts", name, query="?minLsn=" + listed["lsn"], wait=55.0, send=get)
            return got[0]
        return io.BufferedReader(_Artefact(id, found[0], reopen), 1 << 16)

    def claim(self, worker, types=(), max=1, wait=0.0, lease=0.0, request=None, within=EVER, instance="",
              confirms=False):
        """Leases up to `max` Jobs to a worker, waiting for one. For a minute the same `request` gets the same jobs.
        Who `confirms` sends a heartbeat for each job with `confirm` before it starts it."""
        body = {"workerId": worker, "types": list(types), "max": max, "waitMs": int(wait * 1000), "confirms": confirms,
                "leaseMs": int(lease * 1000), "requestId": request or str(uuid.uuid4()), "instance": instance}
        jobs = self._call("jobs", "claim", want="jobs", body=body, wait=wait, within=within)
        jobs = [Job(worker, j, self) for j in jobs]
        return self._count("claimed", jobs, jobs)

    def heartbeat(self, worker, jobs, within=EVER):
        """Renews leases of one worker; the answers, with `status` and `cancel`, are in the order of the jobs."""
        leases = [dict({"progress": j.note} if j.note else {}, jobId=j.id, token=j.token) for j in jobs]
        return self._call("jobs", "heartbeat", want="results", body={"workerId": worker, "jobs": leases}, within=within)

    def send_logs(self, worker, parts, wait=0.0, within=EVER):
        """Sends what running jobs have logged, for those who follow them; the answer has the jobs that are followed.
        Without parts it waits for one."""
        body = {"workerId": worker, "jobs": parts, "waitMs": int(wait * 1000)}
        return self._call("jobs", "logs", want="jobs", body=body, wait=wait, within=within)

    def report(self, job, action, **body):
        """Ends a claim. The action is "complete" (result, log), "fail" (error, class, retryable, delayMs), "release"
        (delayMs) or "suspend" (forMs, signal or batchId). Its token makes it count once; when the claim is lost there
        is an Error with lease_lost."""
        answer = self._call("jobs", job.id, action, body=dict(body, workerId=job.worker, token=job.token))
        return self._count(ENDS[action], [job], answer)

    def store_step(self, job, name, value):
        """Stores a step of a claimed job, and returns the value that the job has: the first of that name."""
        body = {"name": name, "value": value, "workerId": job.worker, "token": job.token}
        answer = self._call("jobs", job.id, "steps", body=body)
        return answer.get("value") if answer.get("duplicate") else self._decode(json.dumps(value))

    def attach(self, job, artefact):
        """Gives a claimed job an artefact that `upload` has returned. One with the same name is replaced."""
        body = dict(artefact, workerId=job.worker, token=job.token)
        self._call("jobs", job.id, "artefacts", body=body)

    def add_children(self, job, id, jobs):
        """Enqueues jobs as a batch with that id, whose parent is a claimed job."""
        parent = {"jobId": job.id, "token": job.token}
        body = {"id": id, "jobs": [_job(j, None) for j in jobs], "workerId": job.worker, "parent": parent}
        self._count("enqueued", [None] * len(jobs), self._call("batches", body=body))

    def batch(self, id):
        """The figures of a batch as they are now, a dict; `endedAt` is not there before all of its jobs have ended."""
        return self._call("batches", id)

    def throttle(self, job, limit, seconds):
        """Lets no job start for so long under one of the limits of the job, as for an API that has answered 429."""
        body = {"limit": limit, "forMs": round(seconds * 1000), "workerId": job.worker, "token": job.token}
        self._call("jobs", job.id, "throttle", body=body)

    def register(self, worker, types, within=EVER, capacity=0, instance=""):
        """Lists the worker, and how many jobs it runs at once; 0: not known. From then on it has to be heard of every
        minute, by any call, or its jobs go back. The instance, 16 hexadecimal digits, is that of its claims."""
        body = dict({"capacity": capacity} if capacity else {}, name=worker, types=list(types), instance=instance)
        self._call("workers", body=body, within=within)

    def leave(self, worker, within=EVER, instance=""):
        """Takes the worker from the list, and its jobs back; with an instance only what is of it."""
        query = "?instance=" + instance if instance else ""
        self._call("workers", worker, query=query, body={}, method="DELETE", within=within)

    def counts(self):
        """What this client did, a dict: the number of each of EVENTS, and the seconds from claims to reports."""
        with self._counting: return dict(self._counts)

    def metrics(self):
        """The same in the text format of Prometheus."""
        counts = self.counts()
        rows = [("jobs_%s_total" % e, "Jobs that this client has %s." % e, counts[e]) for e in EVENTS]
        rows.append(("run_seconds_total", "Seconds from claims to reports.", counts["run_seconds"]))
        return "".join(COUNTER.format(*row) for row in rows)

    def _count(self, event, jobs, answer):
        for job in jobs:
            seconds = now() - job.began if event in EVENTS[2:] else 0.0
            with self._counting:
                self._counts[event] += 1
                self._counts["run_seconds"] += seconds
            try: self._observe and self._observe(event, job, seconds)
            except Exception: log.exception("observe failed")  # the call has taken place
        return answer

    def _call(self, *path, want=None, query="", body=None, method="POST", key=None, wait=0.0, within=EVER,
              send=None):
        path = "/v1/" + "/".join(quote(p, safe="") for p in path) + query
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        headers = {"Accept": "application/json, application/problem+json"}
        headers["Content-Type"] = "application/octet-stream" if send else "application/json"
        headers.update({"Idempotency-Key": key} if key else {}, Prefer="handling=strict")  # unknown fields are refused
        headers.update({"Authorization": "Bearer " + self._token} if self._token else {})
        pause, end, unknown = 0.05, now() + min(within, wait + self._retry_for), False
        while True:
            status, answer, server = 0, {}, self._pick()
            try:
                limit = max(0.05, min(self._attempt_timeout + wait, end - now()))
                status, text = (send or _exchange)(server, path, data, headers, limit, self._tls, method)
                answer = self._decode(text) if text or status >= 300 else {}
                if status < 300: return answer[want] if want else answer
                message = answer.get("detail") or answer.get("message") or "answered %d" % status
            except Exception as e:  # no answer, or not a node's
                answer, message = {}, "%s: %s %s" % (server, status or "", e or type(e).__name__)
                if status == 400 and text.startswith(b"Client sent an HTTP request to an HTTPS server"):
                    raise Error("%s speaks TLS: give ca, OSQUEUE_CA or a context" % server, status)
                unknown |= status < 300 and not isinstance(e, (ConnectionRefusedError, socket.gaierror))
            tag, committed = answer.get("_tag", ""), answer.get("committed")
            unknown |= committed == "unknown" or committed != "no" and (status >= 500 or status >= 400 and not tag)
            error = Error("%s: %s" % (path, message), status, tag, "unknown" if unknown and data else "no")
            error.refused &= bool(tag)  # without one the answer is not a node's, and proves nothing
            self._leader = None if self._leader == server else self._leader
            nap = max(pause * random.uniform(0.5, 1.5), min(60.0, answer.get("retryAfterMs", 0) / 1000))
            off = self._term == -2 and data is None and not wait  # a read that no node accepts; the rest may wait
            if off or error.refused or status in (500, 501, 505) and committed == "no" or now() + nap > end: raise error
            pause = time.sleep(nap) or min(pause * 2, 1.0)

    def _decode(self, text): return json.loads(text, parse_float=self._parse_float)

    def _pick(self):
        """The leader; while there is none, any node: they forward. All are asked at once, one may hang. If none of the
        servers answers, the members are asked that one of them has named."""
        def view(server):
            try:
                status = json.loads(_exchange(server, "/status", None, {}, 1.0, self._tls)[1])
                named = [server.partition("//")[0] + "//" + p.get("http_address", "") for p in status["peers"]]
                return status["term"] if status["state"] == "leader" else -1, True, server, named
            except Exception as e: return -2 if isinstance(e, ConnectionRefusedError) else -1, False, server, []
        local = lambda server: bool(LOOPBACK.match(server))  # such an address is one of the same machine only
        with self._lock:
            if self._leader and now() < self._asked + 30: return self._leader
            for self._turns in self._servers, self._members:
                with ThreadPoolExecutor(len(self._turns)) as pool:  # a lower term may be deposed and not know it
                    self._term, answers, server, named = max(pool.map(view, self._turns))
                self._leader, self._asked = server if self._term >= 0 else None, now()
                named = [s for s in named if s[-1] != "/" and local(s) == local(server)][:32]
                self._members = named or self._members
                if answers: break
            return self._leader or random.choice(self._turns)


def _exchange(*request):
    conn, answer = _request(*request)
    with contextlib.closing(conn): return answer.status, answer.read()


def _request(server, path, data, headers, limit, tls, method="POST"):
    """Sends a request, and returns the connection and the answer, whose body is still to be read."""
    url = urlsplit(server)
    conn = HTTPSConnection(url.netloc, timeout=limit, context=tls) if url.scheme == "https" else None
    conn = conn or HTTPConnection(url.netloc, timeout=limit)
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # an answer may have come before: too large
            conn.request("GET" if data is None else method, url.path + path, data, headers)
        return conn, conn.getresponse()
    except BaseException:
        conn.close()
        raise


class _Artefact(io.RawIOBase):
    """Reads the bytes of an artefact, over another connection when one breaks, and compares their hash."""
    def __init__(self, id, about, reopen):
        self._what = "the artefact %s of the job %s " % (about["name"], id)
        self._about, self._reopen, self._sum, self._at, self._conn = about, reopen, hashlib.sha256(), 0, None

    def readable(self): return True

    def readinto(self, into):
        into = memoryview(into)[:self._about["size"] - self._at]
        while self._at < self._about["size"]:
            fresh, n = not self._conn, 0
            if fresh: self._conn, self._answer = self._reopen(self._at)
            with contextlib.suppress(OSError, HTTPException): n = self._answer.readinto(into)
            if n:
                self._sum.update(into[:n])
                self._at += n
                return n
            self._drop()
            if fresh: raise Error(self._what + "breaks off after %d bytes" % self._at)  # again would not help
        if self._sum.hexdigest() == self._about["sha256"]: return 0
        raise Error(self._what + "does not have the bytes that were uploaded: the SHA-256 differs", tag="damaged")

    def _drop(self):
        if self._conn: self._conn = self._conn.close() or self._answer.close()

    def close(self):
        self._drop()
        super().close()


def _text(e):
    """The text of an exception: what failed in the first line, and then the traceback. A Failure is its text alone."""
    if isinstance(e, Failure): return str(e)[:8000]
    first = "".join(traceback.format_exception_only(type(e), e)).strip()[:1000].encode(errors="replace")
    return (first + b"\n" + traceback.format_exc().encode(errors="replace")[-7000:]).decode(errors="replace")


def _start(target, *args):
    thread = threading.Thread(target=target, args=args, daemon=True)
    return thread.start() or thread


def _wire(members):
    return {re.sub("_(.)", lambda m: m.group(1).upper(), k): v for k, v in members.items() if v is not None}


def _job(members, key):
    """A job for the wire. Its id is made here, unless the caller's key makes it safe to send it again."""
    job = _wire(members)
    return job if key else dict(job, id=job.get("id") or str(uuid.uuid4()))


class Job:
    """A claimed job: id, type, payload, attempts, headers, lease, token (let others refuse lower ones), and `raw`, all
    that was said. When the Event `stop` is set it is to end; `why` is "cancelled", "stopping", or "lost": another may
    run it. `parents` has the jobs before it, with status and result, by their names."""
    def __init__(self, worker, raw, client=None):
        self.worker, self.raw, self.id, self.token = worker, raw, raw["jobId"], raw["token"]
        self.type, self.payload, self.attempts = raw.get("type", ""), raw.get("payload"), raw["attempts"]
        self.confirm = raw.get("confirm", False)  # by a heartbeat, before it starts
        self.headers, self.began = raw.get("headers", {}), now()  # headers of the producer, such as traceparent
        self.lease, self.note, self.why, self.stop = raw["leaseMs"] / 1000, None, "", threading.Event()
        self.right, self.renewed = threading.Lock(), now() - raw.get("leaseAgeMs", 0) / 1000  # who has it reports
        self.due = self.renewed + self.lease / 3
        self.logged, self.written, self.followed, self._logging = b"", 0, None, threading.Lock()
        self.parents = {p["name"]: p for p in raw.get("parents", [])}
        self._client, self._sleeps, self._steps = client, 0, {s["name"]: s["value"] for s in raw.get("steps", [])}

    def __str__(self):
        trace = TRACEPARENT.fullmatch(self.headers.get("traceparent", ""))
        return "job %s" % self.id + (" trace_id=" + trace.group(1) if trace else "")

    def progress(self, percent, message=""):
        """Tells how far the job is, in up to 500 characters. The next heartbeat takes it along, so it costs nothing."""
        self.note = {"percent": max(0, min(100, int(percent))), "message": str(message)[:500]}

    def log(self, text):
        """Adds lines to the log of the attempt. Those who follow the job see them; the last 16 KB are reported."""
        lines = (str(text).rstrip("\n") + "\n").encode(errors="replace")
        with self._logging: self.logged, self.written = (self.logged + lines)[-16000:], self.written + len(lines)

    def part(self, offset=0):
        """What was logged from that byte on, as far as it is kept, for `send_logs`; None: nothing."""
        with self._logging: logged, first = self.logged, self.written - len(self.logged)
        start = max(offset, first)
        while start - first < len(logged) and logged[start - first] & 0xC0 == 0x80: start += 1  # within a character
        text = logged[start - first:].decode()
        return {"jobId": self.id, "token": self.token, "offset": start, "text": text} if text else None

    def step(self, name, fn):
        """Calls fn() once for the job, over all its attempts and retries, and returns its result, JSON of up to 64 KiB:
        later attempts get it without a call. If an attempt ends while fn runs, fn is called again: let it use the id
        of the job and the name as the idempotency key of what it calls."""
        if name not in self._steps: self._steps[name] = self._store(name, fn())
        return self._steps[name]

    def _store(self, name, value):
        while self._client:  # None: a test runs the handler alone
            try: return self._client.store_step(self, name, value)
            except (Error, TypeError, ValueError) as e:
                if isinstance(e, Error) and (e.lease_lost or self.stop.is_set()): raise
                if getattr(e, "refused", True): raise Failure("the step %s: %s" % (name, e), retryable=False)
                self.stop.wait(0.5)
        return value

    def _rest(self, name, seconds):
        """The milliseconds that are left of a time that began when the job first came here. They are sent, not the end:
        if the clock of the cluster is ahead of this one, the wait would end at once."""
        return self.step(name, lambda: round((time.time() + seconds) * 1000)) - round(time.time() * 1000)

    def sleep(self, seconds):
        """Returns when so long has passed since the job first came here; until then it raises Suspend. A job that
        sleeps several times must do so in the same order in each attempt."""
        self._sleeps += 1
        rest = self._rest("sleep:%d" % self._sleeps, seconds)
        if rest > 0: raise Suspend(forMs=rest)

    def wait_signal(self, name, timeout):
        """Returns the value of the first signal of that name, also one that came before; until there is one it raises
        Suspend. TimeoutError: none has come so many seconds after the job first came here."""
        kept = "signal:" + name
        if kept in self._steps: return self._steps[kept]
        for signal in self.raw.get("signals", []):
            if signal["name"] == name: return self.step(kept, lambda: signal.get("value"))
        rest = self._rest("wait:" + name, timeout)
        if rest <= 0: raise TimeoutError("the signal %s did not come in time" % name)
        raise Suspend(forMs=rest, signal=name)

    def add_children(self, name, jobs):
        """Adds jobs, dicts with the arguments of `submit`, as a batch of this one, once over all its attempts."""
        def add():
            batch = "%s.%s" % (self.id, name)
            children = [dict(j, id=j.get("id") or "%s.%d" % (batch, i)) for i, j in enumerate(jobs)]
            if self._client: self._client.add_children(self, batch, children)
            return [j["id"] for j in children]
        self.step("children:" + name, add)

    def wait_children(self, name):
        """Returns the children that were added under the name when all have ended, however they have; until then it
        raises Suspend."""
        batch, ids = "%s.%s" % (self.id, name), self._steps.get("children:" + name)
        if ids is None: raise Failure("the job has no children %s: call add_children first" % name, retryable=False)
        if not self._client: return []
        if not self._client.batch(batch).get("endedAt"): raise Suspend(batchId=batch)
        return [self._client.get(id) for id in ids]

    def put(self, name, data):
        """Stores an artefact of the job, with what `upload` of the client takes. One with the same name, also of an
        earlier attempt, is replaced."""
        if self._client: self._client.attach(self, self._client.upload(name, data))

    def open(self, name):
        """Opens an artefact of the job, see `open_artefact` of the client."""
        if not self._client: raise Error("the job runs without a cluster, which has its artefacts")
        return self._client.open_artefact(self.id, name)

    def end(self, why="stopping"):
        """Tells the handler to end; the first reason stays."""
        self.why = self.why or why
        self.stop.set()


class Worker:
    """Runs jobs, `concurrency` at once, each in a thread. One thread claims as many jobs as there are free slots, one
    renews all leases, one sends what jobs log while a client follows them. Each job gets one report: its result, its
    exception with the traceback, or a release."""
    def __init__(self, client, concurrency=4, name=None, lease=0.0, poll_wait=2.0, stop_timeout=30.0):
        self.client, self.concurrency, self.lease, self.poll_wait = client, min(concurrency, 1000), lease, poll_wait
        self.name = name or "%s-%d-%s" % (socket.gethostname(), os.getpid(), uuid.uuid4().hex[:6])
        self.instance = uuid.uuid4().hex[:16]  # another process may have the same name
        self.stop_timeout, self._handlers, self._held, self._busy, self._refusal = stop_timeout, {}, set(), 0, None
        self._stopping, self._over, self._freed = threading.Event(), threading.Event(), threading.Condition()

    def handle(self, type, handler):
        """Has jobs of the type run by handler(job). What it returns, JSON, is the result."""
        self._handlers[type] = handler

    def stop(self, signum=0, *_):
        """Claims nothing more: `run` returns when the running jobs are done or, after stop_timeout, given back."""
        signum and signal.signal(signum, signal.SIG_DFL)  # a second one ends the program
        threading.Thread(target=self._stopping.set).start()  # a signal's handler must not take locks

    def run(self):
        """Works until `stop`; in the main thread also until SIGINT or SIGTERM. Returns how many jobs could not be
        reported (they go back then, or when nothing is heard). Raises an Error if the cluster refuses the claims."""
        if not self._handlers: raise ValueError("a worker needs a handler: claiming no types would be claiming all")
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self.stop), signal.signal(signal.SIGTERM, self.stop)
        claimer, _, lister, _ = map(_start, (self._claim, self._keep_leases, self._stay_listed, self._send_logs))
        while not self._stopping.wait(0.2): pass  # a signal does not always wake the main thread
        release = lambda job: _start(self._report, job, "release", {})
        for seconds, step in ((self.stop_timeout, Job.end), (4.0, release), (4.0, str)):
            end = now() + seconds
            claimer.join(seconds)
            with self._freed: self._freed.wait_for(lambda: not self._busy, max(0.0, end - now()))
            list(map(step, list(self._held)))
        self._over.set()
        lister.join(7.0)
        if self._refusal: raise self._refusal
        return len(self._held)

    def _claim(self):
        request = None  # of a claim that failed and may have got jobs: it is repeated as it was
        while not self._stopping.is_set():
            with self._freed:
                free = self._freed.wait_for(lambda: self.concurrency - self._busy, 0.2)
            if not request and not free: continue
            if not request: request, most = str(uuid.uuid4()), free
            try:
                jobs = self.client.claim(self.name, self._handlers, most, self.poll_wait, self.lease, request,
                                         within=self.poll_wait + 5, instance=self.instance, confirms=True)
            except Error as e:
                log.warning("%s", e)
                if e.refused: self._refusal = self.stop() or e
                continue
            request = None
            with self._freed: self._busy += len(jobs)
            self._held.update(jobs)
            for job in jobs: _start(self._run, job)

    def _run(self, job):
        action, body = "release", {}  # of a job that came while the worker stopped
        try:
            if isinstance(job.payload, dict) and "osqueue.sealed" in job.payload: raise Failure(SEALED, delayMs=30000)
            if job.confirm: self._confirm(job)
            if not self._stopping.is_set(): action, body = "complete", {"result": self._handlers[job.type](job)}
            json.dumps(body, allow_nan=False)
        except Snooze as e:
            action, body = "release", e.how
        except Suspend as e:
            action, body = ("release", {}) if job.why in ("stopping", "lost") else ("suspend", e.how)
        except BaseException as e:  # SystemExit, too
            text = "cancelled" if job.why == "cancelled" else _text(e)
            action, body = "fail", dict(getattr(e, "how", {}), error=text, **{"class": type(e).__name__})
            action, body = ("release", {}) if job.why in ("stopping", "lost") else (action, body)
        rest = job.followed is not None and job.part(job.followed)
        kept = (job.part() or {"text": ""})["text"].rstrip("\n")
        with contextlib.suppress(Error): rest and self.client.send_logs(self.name, [rest], within=1.0)
        if kept and action == "complete": body["log"] = kept
        if kept and action == "fail": body["error"] += ": " + kept[-max(1, 7500 - len(body["error"])):]
        self._report(job, action, body)
        with self._freed:
            self._busy -= 1
            self._freed.notify_all()

    def _report(self, job, action, body):
        mine = job.right.acquire(blocking=False)
        while mine and job in self._held:  # until the cluster accepts or refuses; the lease is renewed meanwhile
            try:
                self.client.report(job, action, **body)
                log.info("%s: %s", job, action)
                self._held.discard(job)
            except Error as e:
                log.warning("%s: %s", job, e)
                if e.status in (401, 403):  # the job has its result, and nodes may accept the token again
                    if job.why == "lost" or self._over.wait(0.5): self._held.discard(job)
                elif e.refused and not e.lease_lost and action in ("complete", "suspend"):
                    what = "result" if action == "complete" else "suspension"
                    action, body = "fail", {"error": "the %s was refused: %s" % (what, e), "retryable": False}
                elif e.refused and not body.pop("delayMs", 0): self._held.discard(job)  # its lease will end
                elif self._over.wait(0.5): return

    def _confirm(self, job):
        """The last attempt of a job starts when a heartbeat for it is accepted; else it does not count."""
        while not job.why and not self._stopping.is_set():
            sent, answer = now(), {}
            try: answer = self.client.heartbeat(self.name, [job], within=job.lease / 3)[0]
            except Error as e: log.warning("%s: %s", job, e)
            if self._heard(job, answer, sent) and not job.why: return
            self._over.wait(0.5)
        if job.why: raise InterruptedError(job.why)

    def _heard(self, job, answer, sent):
        """What the answer to a heartbeat says of a job: whether it is still ours."""
        job.due = now() + 0.5
        if answer.get("status") == "ok":
            job.renewed, job.due = sent, sent + job.lease / 3
            job.end("cancelled") if answer.get("cancel") else None
        elif answer.get("status") in LOST and job.right.acquire(blocking=False):
            self._held.discard(job)  # if it is being reported, that may be the reason
            job.end("lost")
        if now() - job.renewed > job.lease: job.end("lost")  # nobody says so, but it may be
        return answer.get("status") == "ok"

    def _keep_leases(self):
        while not self._over.wait(0.1):
            jobs, answers, sent = list(self._held), [], now()
            if not any(j.due <= sent for j in jobs): continue
            ends = [min(j.lease / 3, EVER if j.why else j.renewed + j.lease - sent) for j in jobs]
            try: answers = self.client.heartbeat(self.name, jobs, within=min(ends))
            except Error as e: log.warning("%s", e)
            for job, answer in zip(jobs, answers or [{}] * len(jobs)): self._heard(job, answer, sent)

    def _send_logs(self):
        wanted, sent, pause = [], 0.0, 0.0
        while not self._over.wait(pause):
            jobs, pause = {j.id: j for j in list(self._held) if j.written}, 0.2
            parts = [jobs[w["jobId"]].part(w["offset"]) for w in wanted if w["jobId"] in jobs]
            parts = [p for p in parts if p][:16]
            if not jobs or wanted and not parts and now() < sent + 1: continue  # the answers say who is followed
            try: wanted = self.client.send_logs(self.name, parts, 0.0 if wanted else 10.0, within=15.0)
            except Error: wanted, pause = [], 1.0
            sent, ends = now(), {(w["jobId"], w["token"]): w["offset"] for w in wanted}
            for job in jobs.values(): job.followed = ends.get((job.id, job.token))

    def _stay_listed(self):
        pause = 0.0
        while not self._over.wait(pause):
            try: pause = self.client.register(self.name, self._handlers, 5.0, self.concurrency, self.instance) or 10.0
            except Error as e: pause = log.warning("%s", e) or 1.0
        with contextlib.suppress(Error): self.client.leave(self.name, 2.0, self.instance)  # or the silence will tell


def main(command="", *args):
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    most = {"submit": 2, "get": 1, "wait": 2, "cancel": 1, "stats": 0, "worker": 1000}.get(command, -1)
    if not min(most, 1) <= len(args) <= most: return print(__doc__, file=sys.stderr) or 2
    if command == "worker":
        worker = sys.path.insert(0, os.getcwd()) or Worker(Client())
        for name, _, place in (a.partition("=") for a in args):
            try: worker.handle(name, getattr(importlib.import_module(place.split(":")[0]), place.partition(":")[2]))
            except (ImportError, AttributeError, ValueError) as e: return "osqueue: %s=%s: %s" % (name, place, e)
        return 1 if worker.run() else 0
    out = getattr(Client(), command)(*args[:1], *map(json.loads, args[1:]))
    print(out if isinstance(out, str) else json.dumps(out))


if __name__ == "__main__":
    try: sys.exit(main(*sys.argv[1:]))
    except json.JSONDecodeError as e: sys.exit("osqueue: %r is not JSON, where text has quotes: %s" % (e.doc, e))
    except JobError as e: sys.exit(print(json.dumps(e.job)) or "osqueue: %s" % e)
    except (Error, TimeoutError, KeyboardInterrupt) as e: sys.exit("osqueue: %s" % (str(e) or "interrupted"))
