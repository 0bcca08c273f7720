#!/usr/bin/env node
/**
 * A client and a worker for osqueue, in one file that needs nothing but Node 18 or newer. As a program:
 *     osqueue.mjs submit TYPE [JSON] | get ID | wait ID | cancel ID | stats | worker TYPE=FILE...
 * where FILE exports the handler as default. OSQUEUE_SERVERS, OSQUEUE_CA (a file) and OSQUEUE_TOKEN name the nodes,
 * their CA and the access token; without them they are those of a context of "osqueue context" (OSQUEUE_CONTEXT, else
 * the current one). Times are in milliseconds. Jobs have the members of the HTTP API. osqueue.d.mts says more. */
import { createHash, randomUUID } from "node:crypto";
import { createReadStream, readFileSync, realpathSync, statSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { homedir, hostname } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream";
import { fileURLToPath, pathToFileURL } from "node:url";
import { inspect } from "node:util";

const SERVERS = "127.0.0.1:8080,127.0.0.1:8081,127.0.0.1:8082"; // without OSQUEUE_SERVERS
const LOST = ["not_found", "not_running", "wrong_worker", "stale_token", "lease_expired", "timed_out"];
const ENDS = { complete: "completed", fail: "failed", release: "released", suspend: "suspended" };
const EVENTS = ["enqueued", "claimed", ...Object.values(ENDS)];
const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/;
const LOOPBACK = /^(https?:\/\/)?(localhost|127\.[0-9.]+|\[::1\]):/;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms)), now = () => performance.now(); // nobody sets it

/** A call that failed; `committed` tells "no", the write certainly did not take place, from "unknown". */
export class QueueError extends Error {
  constructor(message, status = 0, tag = "", committed = "no") {
    super(message);
    Object.assign(this, { name: "QueueError", status, tag, committed, leaseLost: LOST.includes(tag) });
    this.refused = tag.startsWith("too_many_") || (status >= 400 && status < 500 && ![408, 425, 429].includes(status));
  }
}

/** The error of `wait` for a job that is dead, cancelled or expired; `job` is the job, its status is the tag. */
export class JobError extends QueueError {
  constructor(job) {
    super([`job ${job.id} is ${job.status}`, job.lastError].filter(Boolean).join(": "), 0, job.status);
    Object.assign(this, { name: "JobError", job });
  }
}

const SEALED = "the payload is encrypted, and this client has no keys: run the type with a worker in Go, or with " +
  "osqueue worker --keys";
const SEALED_FILE = "is encrypted, and this client has no keys: read it with a client in Go, or with " +
  "osqueue job get --keys";

/** Thrown by a handler to say how the attempt fails: { retryable: false } is for good, { delayMs } before the next. */
export class Failure extends Error { constructor(text, how = {}) { super(text); this.how = how; } }

/** Thrown by a handler that cannot do the job yet: it runs again after ms, and the attempt does not count. */
export class Snooze extends Error { constructor(ms) { super(`snoozed for ${ms} ms`); this.how = { delayMs: ms }; } }

/** Thrown by `sleep`, `waitSignal` and `waitChildren` of a job that has to wait: a handler lets it pass, and the
 *  attempt ends without being counted. */
export class Suspend extends Error {
  constructor(until) { super(`suspended: ${JSON.stringify(until)}`); this.until = until; }
}

/** The servers, CA (PEM) and token: as given, else of the environment, else of a context. One that is not named counts
 *  only if the servers are its own: its token must not reach another cluster. */
function resolve({ servers, ca, token, context }) {
  const { OSQUEUE_SERVERS, OSQUEUE_CA, OSQUEUE_TOKEN, OSQUEUE_CONTEXT, XDG_CONFIG_HOME } = process.env;
  const list = servers ?? (OSQUEUE_SERVERS ?? "").split(/[\s,]+/).filter(Boolean), name = context || OSQUEUE_CONTEXT;
  const home = join(XDG_CONFIG_HOME || join(homedir(), ".config"), "osqueue");
  const chosen = name || read(join(home, "current")).trim(), path = join(home, "contexts", `${chosen || "dev"}.json`);
  const text = read(path, chosen && (name || list.length === 0) ? null : "");
  if (text && process.platform !== "win32" && statSync(path).mode & 0o77) throw new Error(`others may open ${path}`);
  const bare = (server) => server.trim().toLowerCase().replace(/^.*:\/\//, "").replace(/\/+$/, "");
  let found = text ? JSON.parse(text) : {};
  const own = new Set((found.servers ?? []).map(bare));
  if (!name && !list.every((server) => own.has(bare(server)))) found = {};
  return {
    servers: list.length > 0 ? list : found.servers ?? SERVERS.split(","), token: token || OSQUEUE_TOKEN || found.token,
    ca: ca || (OSQUEUE_CA && readFileSync(OSQUEUE_CA, "utf8")) || found.ca,
  };
}

/** The text of a file; `otherwise`, unless that is null, if there is no such file. */
function read(path, otherwise = "") {
  try { return readFileSync(path, "utf8"); } catch (e) {
    if (e.code !== "ENOENT" || otherwise === null) throw e;
    return otherwise;
  }
}

/** The nodes of a cluster. It finds the leader, and repeats calls for up to `retryForMs`; an id, a request id, a token
 *  or an idempotency key makes that harmless. It calls observe(event, job, ms); job is undefined for "enqueued". */
export class Client {
  #servers; #attemptTimeoutMs; #retryForMs; #leader = ""; #term = 0; #search = null; #token; #agents; #observe; #number;
  #members; #turns; #asked = 0; // the nodes that /status named, those that may be called, and when it was asked
  #counts = Object.fromEntries([...EVENTS, "runMs"].map((event) => [event, 0]));
  constructor(servers, { attemptTimeoutMs = 5000, retryForMs = 30000, observe, number, ...how } = {}) {
    const found = resolve({ ...how, servers });
    const named = found.servers.map((s) => s.trim().replace(/^([^/:]+|\[[^\]/]+\])(?=\/|$)/, "$1:8080"));
    const scheme = found.ca ? "https" : "http";
    const clear = named.find((s) => !/^https?:\/\//.test(s) && !LOOPBACK.test(s));
    if (found.token && !found.ca && clear) {
      throw new Error(`${clear}: the access token would be sent without TLS: give ca or OSQUEUE_CA, or write ` +
        `http://${clear} if you want that`);
    }
    this.#servers = this.#members = named.map((s) => (s.includes("://") ? s : `${scheme}://${s}`).replace(/\/+$/, ""));
    const pool = { keepAlive: true, timeout: 60000, ca: found.ca };
    this.#agents = { "http:": new http.Agent(pool), "https:": new https.Agent(pool) };
    [this.#attemptTimeoutMs, this.#retryForMs, this.#token] = [attemptTimeoutMs, retryForMs, found.token];
    [this.#observe, this.#number] = [observe, number];
  }

  /** Enqueues a job and returns its id. The same call with the same `key` within 24 h is one call. */
  async submit(type, payload, { key, ...members } = {}) {
    const { jobId } = await this.#call(["jobs"], { body: withId({ ...members, type, payload }, key), key });
    return this.#count("enqueued", [undefined], jobId);
  }

  /** Enqueues jobs and returns their ids. Up to 1000, or 1 MB, go in all or none; more are cut in half. */
  async submitMany(jobs, { key } = {}) {
    jobs = Array.from(jobs, (j) => withId(j, key));
    if (jobs.length > 1000 || (jobs.length > 1 && Buffer.byteLength(JSON.stringify(jobs)) > 1000000)) {
      const half = jobs.length >> 1, first = await this.submitMany(jobs.slice(0, half), { key: key && `${key}.0` });
      return first.concat(await this.submitMany(jobs.slice(half), { key: key && `${key}.1` }));
    }
    const ids = jobs.length === 0 ? [] : (await this.#call(["jobs", "batch"], { body: { jobs }, key })).jobIds;
    return this.#count("enqueued", ids.map(() => undefined), ids);
  }

  /** The job as it is now. */
  get(id) { return this.#call(["jobs", id]); }

  /** Waits for the job and returns it. A JobError: it ended otherwise; the tag "timeout": it has not ended. */
  async wait(id, timeoutMs = Infinity) {
    const end = now() + timeoutMs;
    for (;;) {
      const waitMs = Math.floor(Math.max(0, Math.min(15000, end - now())));
      const job = await this.#call(["jobs", id], { query: `?waitMs=${waitMs}`, waitMs, withinMs: end - now() + 5000 });
      if (job.status === "completed") return job;
      if (["dead", "cancelled", "expired"].includes(job.status)) throw new JobError(job);
      if (now() >= end) throw new QueueError(`job ${id} is ${job.status}`, 0, "timeout");
      await sleep(20); // should a server answer at once
    }
  }

  /** The figures of the queue; with { types: true } also those of each type. */
  stats({ types = false } = {}) { return this.#call(["stats"], { query: types ? "?types=true" : "" }); }

  /** Takes a job back and returns its status: one that runs is cancelled when its worker has ended the attempt. */
  async cancel(id, { key = randomUUID() } = {}) {
    return (await this.#call(["jobs", id, "cancel"], { body: {}, key })).status;
  }

  /** Changes a job that waits, or with retry: true one that has ended badly; with a `revision` only if it is that. */
  edit(id, { key = randomUUID(), ...body }) { return this.#call(["jobs", id], { body, method: "PATCH", key }); }

  /** Enqueues jobs that run after each other, all or none, and returns the id of their batch. `steps` has them by the
   *  name of the step; `after` has names of earlier ones. The id of a job: that of the batch, a point, and the name. */
  async flow(steps, { id = randomUUID() } = {}) {
    const of = (name) => `${id}.${name}`;
    const jobs = Object.entries(steps).map(([step, { after = [], ...job }]) =>
      ({ ...job, id: of(step), step, after: after.map(of), afterNames: after }));
    const { batchId } = await this.#call(["batches"], { body: { id, jobs } });
    return this.#count("enqueued", jobs.map(() => undefined), batchId);
  }

  /** The figures of a batch as they are now; `endedAt` is there when all of its jobs have ended. */
  batch(id) { return this.#call(["batches", id]); }

  /** Waits until all jobs of a batch have ended, however they have. The tag "timeout" of an error: they have not. */
  async waitBatch(id, timeoutMs = Infinity) {
    for (let end = now() + timeoutMs, pause = 50; ; pause = Math.min(pause * 2, 1000)) {
      const batch = await this.batch(id);
      if (batch.endedAt) return batch;
      if (now() >= end) throw new QueueError(`${batch.pending} jobs of the batch ${id} have not ended`, 0, "timeout");
      await sleep(Math.min(pause, Math.max(0, end - now())));
    }
  }

  /** Sends a signal to a job that has not ended; returns its status. It gets a signal with the same `id` once. */
  async sendSignal(job, name, value, { id = randomUUID() } = {}) {
    return (await this.#call(["jobs", job, "signals", name], { body: { value, id } })).status;
  }

  /** Makes a link, valid for a week or so long, by which anybody may send the job that signal, once. */
  makeLink(job, signal, forMs = 0) {
    return this.#call(["jobs", job, "links"], { body: { signal, forMs: Math.round(forMs) } });
  }

  /** Sends the bytes of an artefact, up to 5 GiB: a string, a Uint8Array, or the file { path }, which is read twice.
   *  They are not encrypted. Returns an item of `artefacts` for the job that gets it, within a day. */
  async upload(name, data) {
    const path = data?.path, whole = path ? undefined : Buffer.from(data), sum = createHash("sha256");
    const size = path ? statSync(path).size : whole.length, body = () => (path ? createReadStream(path) : [whole]);
    if (size > 5 * 2 ** 30) throw new RangeError(`the artefact ${name} has ${size} bytes: at most 5 GiB are allowed`);
    for await (const part of body()) sum.update(part);
    const reservation = { body: { size, sha256: sum.digest("hex") }, key: randomUUID() };
    const { id, url, headers, lsn } = await this.#call(["artefacts"], reservation);
    const put = (to, { headers, ...how }) =>
      this.#send(to, { ...how, method: "PUT", headers: { ...headers, "Content-Length": size }, body });
    const signed = url ? put(url, { headers, limit: 60000, store: true }) : Promise.reject();
    const [status] = await signed.catch(() => [0]);
    const send = (to, { headers, ...how }) =>
      put(to, { ...how, headers: { ...headers, "Content-Type": "application/octet-stream" } });
    if (status < 200 || status > 299) // a node can reach the store in any case
      await this.#call(["artefacts", id], { method: "PUT", query: `?minLsn=${lsn}`, waitMs: 55000, send });
    return { name, id };
  }

  /** The artefacts of a job: their names, sizes and hashes. */
  async artefacts(id) { return (await this.#call(["jobs", id, "artefacts"])).artefacts; }

  /** Reads an artefact of a job, part by part. A QueueError ends it if the bytes are not those that were uploaded. */
  async *openArtefact(id, name) {
    const path = ["jobs", id, "artefacts"], what = `the artefact ${name} of the job ${id}`, sum = createHash("sha256");
    const { artefacts, lsn } = await this.#call(path), about = artefacts.find((a) => a.name === name);
    if (!about) throw new QueueError(`the job ${id} has no artefact ${name}`, 404, "not_found");
    if (about.sealed) throw new QueueError(`${what} ${SEALED_FILE}`, 0, "sealed");
    for (let at = 0; at < about.size;) {
      const from = at, range = at > 0 ? { Range: `bytes=${at}-` } : {};
      let body;
      const send = async (url, { headers, ...how }) => {
        const open = at > 0 ? 206 : 200;
        let answer = await this.#send(url, { ...how, open, headers: { ...headers, ...range } });
        if (answer[0] === 302) // to the store, which gets no token
          answer = await this.#send(answer[2].headers.location, { ...how, open, headers: range, store: true });
        body = answer[2];
        return answer;
      };
      await this.#call([...path, name], { query: `?minLsn=${lsn}`, waitMs: 55000, send });
      try {
        for await (const part of body) {
          sum.update(part);
          if ((at += part.length) > about.size) break;
          yield part;
        }
      } catch { /* the rest comes over another connection */ }
      if (at === from) throw new QueueError(`${what} breaks off after ${at} bytes`);
    }
    if (sum.digest("hex") !== about.sha256)
      throw new QueueError(`${what} does not have the bytes that were uploaded: the SHA-256 differs`, 0, "damaged");
  }

  /** Leases up to `max` Jobs to the worker of that name. For a minute the same `request` gets the same jobs again. */
  async claim(worker, { types = [], max = 1, waitMs = 0, leaseMs = 0, request = randomUUID(), withinMs, ...how } = {}) {
    const body = { workerId: worker, types, max, waitMs, leaseMs, requestId: request, ...how };
    const { jobs } = await this.#call(["jobs", "claim"], { body, waitMs, withinMs });
    const claimed = jobs.map((j) => new Job(worker, j, this));
    return this.#count("claimed", claimed, claimed);
  }

  /** Renews leases of one worker; the answers, with `status` and `cancel`, are in the order of the jobs. */
  async heartbeat(worker, jobs, { withinMs } = {}) {
    const body = { workerId: worker, jobs: jobs.map((j) => ({ jobId: j.id, token: j.token, progress: j.note })) };
    return (await this.#call(["jobs", "heartbeat"], { body, withinMs })).results;
  }

  /** Sends what running jobs have logged; the answer has the jobs that are followed. Without parts it waits for one. */
  async sendLogs(worker, parts, { waitMs = 0, withinMs } = {}) {
    const body = { workerId: worker, jobs: parts, waitMs };
    return (await this.#call(["jobs", "logs"], { body, waitMs, withinMs })).jobs;
  }

  /** Ends a claim: "complete" with result, log, "fail" with error, retryable, delayMs, "release" with delayMs, or
   *  "suspend" with forMs, signal or batchId. */
  async report(job, action, body = {}) {
    const how = { body: { ...body, workerId: job.worker, token: job.token } };
    return this.#count(ENDS[action], [job], await this.#call(["jobs", job.id, action], how));
  }

  /** Stores a step of a claimed job, and returns the value that the job has: the first of that name. */
  async storeStep(job, name, value) {
    const body = { name, value: value ?? null, workerId: job.worker, token: job.token };
    const stored = await this.#call(["jobs", job.id, "steps"], { body });
    return stored.duplicate ? stored.value ?? null : parse(JSON.stringify(body.value), this.#number);
  }

  /** Gives a claimed job an artefact that `upload` has returned. One with the same name is replaced. */
  async attach(job, artefact) {
    const body = { ...artefact, workerId: job.worker, token: job.token };
    await this.#call(["jobs", job.id, "artefacts"], { body });
  }

  /** Enqueues jobs as a batch with that id, whose parent is a claimed job. */
  async addChildren(job, id, jobs) {
    const parent = { jobId: job.id, token: job.token };
    await this.#call(["batches"], { body: { id, jobs: jobs.map((j) => withId(j)), workerId: job.worker, parent } });
    this.#count("enqueued", jobs.map(() => undefined));
  }

  /** Lets no job start for so long under one of the limits of the job, as for an API that has answered 429. */
  throttle(job, limit, forMs) {
    const body = { limit, forMs: Math.round(forMs), workerId: job.worker, token: job.token };
    return this.#call(["jobs", job.id, "throttle"], { body });
  }

  /** Lists the worker and how many jobs it runs at once. It then has to call every minute, or its jobs go back. */
  register(worker, types, withinMs, capacity, instance) {
    return this.#call(["workers"], { body: { name: worker, types, capacity, instance }, withinMs });
  }

  /** Takes the worker from the list, and its jobs back; with an instance only what is of it. */
  leave(worker, withinMs, instance) {
    const query = instance ? `?instance=${instance}` : "";
    return this.#call(["workers", worker], { query, method: "DELETE", body: {}, withinMs });
  }

  /** What this client did: the number of jobs by event, and in `runMs` the time from claims to reports. */
  counts() { return { ...this.#counts }; }

  /** The same in the text format of Prometheus. */
  metrics() {
    const rows = EVENTS.map((e) => [`jobs_${e}_total`, `Jobs that this client has ${e}.`, this.#counts[e]]);
    rows.push(["run_seconds_total", "Seconds from claims to reports.", this.#counts.runMs / 1000]);
    const text = ([name, help, n]) => `# HELP ${name} ${help}\n# TYPE ${name} counter\n${name} ${n}\n`;
    return rows.map(([name, ...row]) => text([`osqueue_client_${name}`, ...row])).join("");
  }

  #count(event, jobs, answer) {
    for (const job of jobs) {
      const ms = job && event !== "claimed" ? now() - job.began : 0;
      this.#counts[event]++;
      this.#counts.runMs += ms;
      try { this.#observe?.(event, job, ms); } catch (e) { console.error(`observe: ${e.message}`); } // the call is made
    }
    return answer;
  }

  async #call(parts, { query = "", body, method = body ? "POST" : "GET", key, waitMs = 0, withinMs = Infinity,
    send = (url, how) => this.#send(url, how) } = {}) {
    const path = `/v1/${parts.map(encodeURIComponent).join("/")}${query}`;
    const headers = { Accept: "application/json, application/problem+json", Prefer: "handling=strict" };
    Object.assign(headers, key && { "Idempotency-Key": key }, body && { "Content-Type": "application/json" });
    Object.assign(headers, this.#token && { Authorization: `Bearer ${this.#token}` });
    const request = { method, headers, body: JSON.stringify(body) };
    const end = now() + Math.min(withinMs, waitMs + this.#retryForMs);
    for (let pause = 50, unknown = false; ; pause = Math.min(pause * 2, 1000)) {
      const server = await this.#pick();
      let status = 0, answer = {}, message, text;
      try {
        const limit = Math.ceil(Math.max(50, Math.min(this.#attemptTimeoutMs + waitMs, end - now())));
        [status, text] = await send(server + path, { ...request, limit, head: (n) => { status = n; } });
        answer = text || status >= 300 ? parse(text, this.#number) : {};
        if (status < 300) return answer;
        message = answer.detail ?? answer.message ?? `answered ${status}`;
      } catch (e) { // no answer, or not a node's
        if (status === 400 && text?.startsWith("Client sent an HTTP request to an HTTPS server"))
          throw new QueueError(`${server} speaks TLS: give ca, OSQUEUE_CA or a context`, status);
        [answer, message] = [{}, `${server}: ${status || ""} ${e.message || e.code}`];
        unknown ||= status < 300 && !e.unsent;
      }
      const tag = answer._tag ?? "";
      unknown ||= answer.committed === "unknown" || (answer.committed !== "no" && status >= (tag ? 500 : 400));
      const error = new QueueError(`${path}: ${message}`, status, tag, unknown && body ? "unknown" : "no");
      if (this.#leader === server) this.#leader = "";
      const nap = Math.max(pause * (0.5 + Math.random()), Math.min(60000, answer.retryAfterMs ?? 0));
      error.refused &&= tag !== ""; // without one the answer is not a node's, and proves nothing
      const off = this.#term === -2 && !body && !waitMs; // a read that no node accepts; the rest may wait
      const final = off || error.refused || ([500, 501, 505].includes(status) && answer.committed === "no");
      if (final || now() + nap > end) throw error;
      await sleep(nap);
    }
  }

  /** Sends one request and returns status, text and answer. `head` is called with the status before the text has come.
   *  An answer with the status `open` is not read. It and a body that is a function may take long, if bytes come. */
  #send(url, { method = "GET", headers = {}, body, limit, head, open, store }) {
    const { protocol } = new URL(url), kind = protocol === "https:" ? https : http, streams = body instanceof Function;
    return new Promise((done, fail) => {
      const signal = open || streams ? undefined : AbortSignal.timeout(limit);
      const agent = store ? undefined : this.#agents[protocol]; // a store does not have a certificate of the cluster
      const request = kind.request(url, { method, headers, agent, signal }, (answer) => {
        const parts = [];
        head?.(answer.statusCode);
        if (answer.statusCode === open) return done([open, "", answer]);
        if (open && answer.statusCode < 300) return fail(answer.destroy() && new Error("not the part that was wanted"));
        answer.on("error", fail).on("data", (part) => parts.push(part));
        answer.on("close", () => answer.complete || fail(new Error("the answer is cut off")));
        answer.on("end", () => done([answer.statusCode, Buffer.concat(parts).toString(), answer]));
      });
      const late = (e) => (e.name === "AbortError" ? new Error(`no answer within ${limit} ms`) : e);
      const one = (e) => (e.errors ? Object.assign(e, { message: e.errors.map((x) => x.message).join(", ") }) : e);
      request.on("socket", (s) => { s.connecting ? s.once("connect", () => { request.met = 1; }) : request.met = 1; });
      request.on("error", (e) => fail(Object.assign(one(late(e)), { unsent: !request.met })));
      if (!signal) request.setTimeout(limit, () => request.destroy(new Error(`no bytes within ${limit} ms`)));
      if (streams) pipeline(body(), request, (e) => e && fail(e)); else request.end(body);
    });
  }

  /** The leader; while there is none, any node: they forward. */
  async #pick() {
    if (this.#leader && now() < this.#asked + 30000) return this.#leader;
    await (this.#search ??= this.#find().finally(() => { this.#search = null; }));
    return this.#leader || this.#turns[Math.floor(Math.random() * this.#turns.length)];
  }

  /** Asks the servers or, if none answers, the members that one has named. All are asked at once, one may hang. */
  async #find() {
    const view = (server) => this.#send(`${server}/status`, { limit: 1000 }).then(([, text]) => JSON.parse(text))
      .then(({ state, term, peers }) => [state === "leader" ? term : -1, server, peers])
      .catch((e) => [e.code === "ECONNREFUSED" ? -2 : -1, server]);
    for (this.#turns of [this.#servers, this.#members]) {
      const [term, server, peers] = (await Promise.all(this.#turns.map(view)))
        .reduce((a, b) => (b[0] > a[0] || (b[2] && !a[2]) ? b : a)); // lower: deposed, maybe
      [this.#term, this.#leader, this.#asked] = [term, term >= 0 ? server : "", now()];
      const named = (peers ?? []).map((p) => server.replace(/\/\/.*/, `//${p.http_address ?? ""}`));
      const own = named.filter((s) => !s.endsWith("/") && LOOPBACK.test(s) === LOOPBACK.test(server)); // its machine's
      if (own.length > 0) this.#members = own.slice(0, 32);
      if (peers) return;
    }
  }
}

/** JSON; number(text) makes the values of numbers that JavaScript would write in another way. */
function parse(text, number) {
  if (!number) return JSON.parse(text);
  const mark = randomUUID(), lost = (t) => t[0] !== '"' && String(Number(t)) !== t;
  const marked = text.replace(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g, (t) => (lost(t) ? `"${mark}${t}"` : t));
  return JSON.parse(marked, (_, v) => (typeof v === "string" && v.startsWith(mark) ? number(v.slice(mark.length)) : v));
}

/** The id is made here, unless the caller's key makes it safe to send the job again. */
const withId = (job, key) => (key ? job : { ...job, id: job.id ?? randomUUID() });

/** A claimed job. When `signal` is aborted the handler is to end; `why` is cancelled, stopping, or lost. */
export class Job {
  #stop = new AbortController(); #client; #steps; #sleeps = 0;
  constructor(worker, raw, client) {
    if (!Number.isSafeInteger(raw.token)) throw new Error(`the token ${raw.token} is too large for JavaScript`);
    const { jobId: id, type = "", payload, attempts, headers = {}, leaseMs, leaseAgeMs: age = 0, token } = raw;
    const { signal } = this.#stop, began = now();
    Object.assign(this, { worker, raw, id, type, payload, attempts, headers, leaseMs, token, signal });
    this.confirm = raw.confirm === true; // by a heartbeat, before it starts
    Object.assign(this, { began, why: "", settled: false, renewed: began - age, due: began - age + leaseMs / 3 });
    this.parents = Object.fromEntries((raw.parents ?? []).map((p) => [p.name, p])); // the jobs before it
    [this.#client, this.#steps] = [client, new Map((raw.steps ?? []).map((s) => [s.name, s.value]))];
    this.output = { kept: Buffer.alloc(0), written: 0, followed: undefined }; // of `log`
  }

  /** For lines of the log: the id, and that of the trace of the producer. */
  toString() {
    const trace = TRACEPARENT.exec(this.headers.traceparent ?? "");
    return `job ${this.id}${trace ? ` trace_id=${trace[1]}` : ""}`;
  }

  /** Tells how far the job is, in up to 500 characters. The next heartbeat takes it along, so it costs nothing. */
  progress(percent, message = "") {
    this.note = { percent: Math.max(0, Math.min(100, Math.trunc(percent))), message: String(message).slice(0, 500) };
  }

  /** Adds lines to the log of the attempt. Those who follow the job see them; the last 16 KB are reported. */
  log(text) {
    const lines = Buffer.from(`${String(text).replace(/\n+$/, "")}\n`);
    this.output.kept = Buffer.concat([this.output.kept, lines]).subarray(-16000);
    this.output.written += lines.length;
  }

  /** What was logged from that byte on, as far as it is kept, for `sendLogs`; undefined: nothing. */
  part(offset = 0) {
    const { kept, written } = this.output, first = written - kept.length;
    let start = Math.max(offset, first);
    while ((kept[start - first] & 0xc0) === 0x80) start++; // within a character
    const text = kept.subarray(start - first).toString();
    return text ? { jobId: this.id, token: this.token, offset: start, text } : undefined;
  }

  /** Calls fn() once for the job, over all its attempts and retries, and returns its result, JSON of ≤ 64 KiB. If an
   *  attempt ends while fn runs, fn is called again: let it use the job's id and the name as idempotency key. */
  async step(name, fn) {
    if (!this.#steps.has(name)) this.#steps.set(name, await this.#store(name, await fn()));
    return this.#steps.get(name);
  }

  async #store(name, value) {
    while (this.#client) { // without one a test runs the handler alone
      try { return await this.#client.storeStep(this, name, value); } catch (e) {
        const failed = e instanceof QueueError;
        if (failed && (e.leaseLost || this.why)) throw e;
        if (!failed || e.refused) throw new Failure(`the step ${name}: ${e.message}`, { retryable: false });
        await sleep(500);
      }
    }
    return value;
  }

  /** What is left of a time that began when the job first came here. It is sent, not the end: if the clock of the
   *  cluster is ahead of this one, the wait would end at once. */
  async #rest(name, ms) { return await this.step(name, () => Date.now() + Math.round(ms)) - Date.now(); }

  /** Resolves when so long has passed since the job first came here; until then it throws a Suspend. A job that sleeps
   *  several times must do so in the same order in each attempt. */
  async sleep(ms) {
    const forMs = await this.#rest(`sleep:${++this.#sleeps}`, ms);
    if (forMs > 0) throw new Suspend({ forMs });
  }

  /** Returns the value of the first signal of that name, also one that came before; until there is one it throws a
   *  Suspend. The tag "timeout" of an error: none has come so long after the job first came here. */
  async waitSignal(name, timeoutMs) {
    const kept = `signal:${name}`, came = this.raw.signals?.find((s) => s.name === name);
    if (came || this.#steps.has(kept)) return this.step(kept, () => came.value ?? null);
    const forMs = await this.#rest(`wait:${name}`, timeoutMs);
    if (forMs <= 0) throw new QueueError(`the signal ${name} did not come in time`, 0, "timeout");
    throw new Suspend({ forMs, signal: name });
  }

  /** Adds jobs, with the members of `submitMany`, as a batch of this one, once over all its attempts. */
  async addChildren(name, jobs) {
    await this.step(`children:${name}`, async () => {
      const batch = `${this.id}.${name}`;
      const children = Array.from(jobs, (j, i) => ({ ...j, id: j.id ?? `${batch}.${i}` }));
      await this.#client?.addChildren(this, batch, children);
      return children.map((j) => j.id);
    });
  }

  /** Returns the children that were added under the name when all have ended, however they have; until then it throws a
   *  Suspend. */
  async waitChildren(name) {
    const batchId = `${this.id}.${name}`, ids = this.#steps.get(`children:${name}`);
    if (!ids) throw new Failure(`the job has no children ${name}: call addChildren first`, { retryable: false });
    if (!this.#client) return [];
    if (!(await this.#client.batch(batchId)).endedAt) throw new Suspend({ batchId });
    return Promise.all(ids.map((id) => this.#client.get(id)));
  }

  /** Stores an artefact of the job, see `upload`. One with the same name, also of an earlier attempt, is replaced. */
  async put(name, data) {
    if (this.#client) await this.#client.attach(this, await this.#client.upload(name, data));
  }

  /** Reads an artefact of the job, part by part: see `openArtefact`. */
  open(name) {
    if (!this.#client) throw new Error("the job runs without a cluster, which has its artefacts");
    return this.#client.openArtefact(this.id, name);
  }

  /** Tells the handler to end; the first reason stays. */
  end(why) { this.#stop.abort(new Error(this.why ||= why)); }
}

/** Runs jobs, `concurrency` at once, renews all leases together, and reports each job once: the result, the error with
 *  the stack, or a release. A handler that keeps the event loop busy stops the heartbeats: give it a worker thread. */
export class Worker {
  #handlers = new Map(); #held = new Set(); #busy = 0; #freed = () => {}; // #freed wakes the claimer
  #stopping = false; #over = false; #refusal = null;
  constructor(client, { concurrency = 4, name, leaseMs = 0, pollWaitMs = 2000, stopTimeoutMs = 30000 } = {}) {
    name ??= `${hostname()}-${process.pid}-${randomUUID().slice(0, 6)}`;
    Object.assign(this, { client, concurrency: Math.min(concurrency, 1000), name, leaseMs, pollWaitMs, stopTimeoutMs });
    this.instance = randomUUID().replaceAll("-", "").slice(0, 16); // another process may have the same name
    this.log = (line) => console.error(line); // replace it to have the lines elsewhere
  }

  /** Has jobs of the type run by handler(job), which may be async. What it returns, JSON, is the result. */
  handle(type, handler) { this.#handlers.set(type, handler); }

  /** Claims nothing more: `run` ends when the running jobs are done or, after stopTimeoutMs, given back. */
  stop() {
    this.#stopping = true;
    this.#freed();
  }

  /** Works until `stop`, SIGINT, SIGTERM; returns how many jobs could not be reported. Fails if claims are refused.*/
  async run() {
    if (this.#handlers.size === 0) throw new Error("a worker needs a handler: claiming no types would be claiming all");
    process.once("SIGINT", () => this.stop()).once("SIGTERM", () => this.stop());
    const [, listed] = [this.#keepLeases(), this.#stayListed(), this.#sendLogs()];
    let claiming = true;
    this.#claim().finally(() => { claiming = false; });
    while (!this.#stopping) await sleep(50);
    const [tell, release] = [(job) => job.end("stopping"), (job) => void this.#report(job, "release", {})];
    for (const [ms, step] of [[this.stopTimeoutMs, tell], [4000, release], [4000, () => {}]]) {
      for (const end = now() + ms; (claiming || this.#busy > 0) && now() < end;) await sleep(20);
      this.#held.forEach(step);
    }
    this.#over = true;
    await listed;
    if (this.#refusal) throw this.#refusal;
    return this.#held.size;
  }

  async #claim() {
    for (let request, max; !this.#stopping;) {
      if (!request && this.#busy >= this.concurrency) {
        await new Promise((freed) => { this.#freed = freed; });
        continue;
      }
      if (!request) [request, max] = [randomUUID(), this.concurrency - this.#busy]; // else a claim failed: repeat it
      const how = { types: [...this.#handlers.keys()], waitMs: this.pollWaitMs, withinMs: this.pollWaitMs + 5000 };
      const own = { instance: this.instance, confirms: true, leaseMs: this.leaseMs };
      const jobs = await this.client.claim(this.name, { ...how, ...own, max, request }).catch((e) => {
        this.log(e.message);
        if (e.refused) [this.#refusal, this.#stopping] = [e, true];
      });
      if (!jobs) { await sleep(500); continue; }
      request = undefined;
      this.#busy += jobs.length;
      for (const job of jobs) this.#run(job).finally(() => { this.#busy--; this.#freed(); });
    }
  }

  async #run(job) {
    this.#held.add(job);
    if (this.#stopping) return this.#report(job, "release", {});
    let action = "complete", body;
    try {
      if (job.payload?.["osqueue.sealed"] !== undefined) throw new Failure(SEALED, { delayMs: 30_000 });
      if (job.confirm) await this.#confirm(job);
      JSON.stringify(body = { result: await this.#handlers.get(job.type)(job) });
    } catch (e) {
      const snoozed = e instanceof Snooze, waits = e instanceof Suspend && e.until;
      action = snoozed || ["stopping", "lost"].includes(job.why) ? "release" : "fail";
      const { retryable = true, delayMs } = e?.how ?? {};
      const text = job.why === "cancelled" ? job.why : e instanceof Failure ? e.message : inspect(e);
      body = action === "release" ? {} :
        { error: text.slice(0, 8000), retryable: Boolean(retryable), class: e?.constructor?.name };
      if (waits && action === "fail") [action, body] = ["suspend", waits];
      if (delayMs != null && (snoozed || action === "fail")) body.delayMs = Math.max(0, Math.round(Number(delayMs)));
    }
    const rest = job.output.followed !== undefined && job.part(job.output.followed);
    if (rest) await this.client.sendLogs(this.name, [rest], { withinMs: 1000 }).catch(() => {});
    const kept = (job.part()?.text ?? "").replace(/\n$/, "");
    if (kept && action === "complete") body.log = kept;
    if (kept && action === "fail") body.error += `: ${kept.slice(-Math.max(1, 7500 - body.error.length))}`;
    await this.#report(job, action, body);
  }

  async #report(job, action, body) {
    const mine = !job.settled && (job.settled = true); // who comes first reports, until it is accepted or refused
    while (mine && this.#held.has(job)) {
      try {
        await this.client.report(job, action, body);
        this.#held.delete(job);
      } catch (e) {
        this.log(`${job}: ${e.message}`);
        if ([401, 403].includes(e.status)) { // the job has its result, and nodes may accept the token again
          if (job.why !== "lost" && !this.#over) await sleep(500); else this.#held.delete(job);
        } else if (e.refused && !e.leaseLost && ["complete", "suspend"].includes(action)) {
          const error = `the ${action === "suspend" ? "suspension" : "result"} was refused: ${e.message}`;
          [action, body] = ["fail", { error, retryable: false }];
        } else if (e.refused && !(body.delayMs && delete body.delayMs)) this.#held.delete(job); // its lease will end
        else if (!this.#over) await sleep(500); else return;
      }
    }
  }

  /** The last attempt of a job starts when a heartbeat for it is accepted; else it does not count. */
  async #confirm(job) {
    while (!job.why) {
      const sent = now(), beat = this.client.heartbeat(this.name, [job], { withinMs: job.leaseMs / 3 });
      const answers = await beat.catch((e) => this.log(`${job}: ${e.message}`));
      if (this.#heard(job, answers?.[0], sent) && !job.why) return;
      if (this.#stopping) job.end("stopping");
      await sleep(500);
    }
    throw new Error(job.why);
  }

  /** What the answer to a heartbeat says of a job: whether it is still ours. */
  #heard(job, { status, cancel } = {}, sent) {
    job.due = now() + 500;
    if (status === "ok") [job.renewed, job.due] = [sent, sent + job.leaseMs / 3];
    if (cancel) job.end("cancelled");
    if (LOST.includes(status) && !job.settled) // if it is being reported, that may be the reason
      (job.settled = this.#held.delete(job)) && job.end("lost");
    if (now() - job.renewed > job.leaseMs) job.end("lost"); // nobody says so, but it may be
    return status === "ok";
  }

  async #keepLeases() {
    for (; !this.#over; await sleep(100)) {
      const jobs = [...this.#held], sent = now();
      if (!jobs.some((j) => j.due <= sent)) continue;
      const ends = jobs.flatMap((j) => [j.leaseMs / 3, j.why ? Infinity : j.renewed + j.leaseMs - sent]);
      const how = { withinMs: Math.min(...ends) };
      const answers = await this.client.heartbeat(this.name, jobs, how).catch((e) => this.log(e.message));
      jobs.forEach((job, i) => void this.#heard(job, answers?.[i], sent));
    }
  }

  /** Sends what jobs log while a client follows them; the answers say which. */
  async #sendLogs() {
    for (let wanted = [], sent = 0, pause = 200; !this.#over; await sleep(pause)) {
      const jobs = new Map([...this.#held].filter((j) => j.output.written > 0).map((j) => [j.id, j]));
      const parts = wanted.map((w) => jobs.get(w.jobId)?.part(w.offset)).filter(Boolean).slice(0, 16);
      pause = 200;
      if (jobs.size === 0 || (wanted.length > 0 && parts.length === 0 && now() < sent + 1000)) continue;
      const how = { waitMs: wanted.length > 0 ? 0 : 10000, withinMs: 15000 };
      wanted = await this.client.sendLogs(this.name, parts, how).catch(() => (pause = 1000, []));
      sent = now();
      for (const job of jobs.values())
        job.output.followed = wanted.find((w) => w.jobId === job.id && w.token === job.token)?.offset;
    }
  }

  async #stayListed() {
    for (let due = 0; !this.#over; await sleep(100)) {
      if (now() < due) continue;
      const types = [...this.#handlers.keys()];
      const listed = this.client.register(this.name, types, 5000, this.concurrency, this.instance);
      due = await listed.then(() => 10000, (e) => (this.log(e.message), 1000)) + now();
    }
    await this.client.leave(this.name, 2000, this.instance).catch(() => {}); // or the silence will tell
  }
}

async function main(command, ...args) {
  const most = { submit: 2, get: 1, wait: 2, cancel: 1, stats: 0, worker: 1000 }[command] ?? -1;
  const usage = "submit TYPE [JSON] | get ID | wait ID [MS] | cancel ID | stats | worker TYPE=FILE...";
  if (args.length > most || args.length < Math.min(most, 1)) return console.error(`usage: osqueue.mjs ${usage}`), 2;
  const worker = new Worker(new Client());
  if (command !== "worker") {
    if (args.length > 1) args[1] = JSON.parse(args[1]);
    const out = await worker.client[command](...args).catch((e) => {
      if (e.job) console.log(JSON.stringify(e.job)); // as "osqueue job wait" does
      throw e;
    });
    return console.log(typeof out === "string" ? out : JSON.stringify(out)), 0;
  }
  for (const [type, file] of args.map((arg) => arg.split("="))) {
    const handler = file && (await import(pathToFileURL(file))).default;
    if (typeof handler !== "function") throw new Error(`${type}=${file}: a handler must be the file's default export`);
    worker.handle(type, handler);
  }
  return (await worker.run()) > 0 ? 1 : 0;
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url))
  main(...process.argv.slice(2)).catch((e) => (console.error(`osqueue: ${e.message}`), 1)).then(process.exit);
