/** What may be said of a job when it is enqueued: NewJob of the HTTP API. Times are in milliseconds. */
export interface JobMembers {
  /** Made by the client if absent. The same job under the same id may be enqueued again. */
  id?: string;
  /** Higher first. */
  priority?: number;
  delayMs?: number;
  /** Since 1970, as startBefore, when the job expires if it has not been claimed. */
  runAt?: number; startBefore?: number;
  retainMs?: number; // after the end of the job
  onError?: { class: string; action: "dead" | "retry"; delayMs?: number }[]; // class: the name of an error's class
  maxAttempts?: number;
  leaseMs?: number;
  /** How long an attempt may run. */
  timeoutMs?: number;
  backoff?: { kind: "none" | "fixed" | "linear" | "exponential"; baseMs?: number; capMs?: number; jitter?: number };
  group?: string;
  tags?: string[];
  /** Keys of limits that all must have room before the job starts. */
  limits?: string[];
  /** The job waits until all earlier jobs of the sequence have ended. */
  sequence?: string;
  /** The worker gets them with the job in every attempt. */
  headers?: { [name: string]: string };
  uniqueKey?: string;
  /** Members of the payload that make the key, in its place. */
  uniqueFields?: string[];
  /** What becomes of a waiting job with the key. */
  onConflict?: "keep" | "replace" | "debounce";
  debounceMs?: number;
  debounceMaxMs?: number;
  uniqueScope?: "waiting" | "active" | "period";
  uniqueMs?: number;
  /** Ids of jobs that must complete first. */
  after?: string[];
  afterFailure?: "block" | "cancel" | "run" | "only";
  /** Ids of batches whose jobs must have ended first. */
  afterBatches?: string[];
  batchId?: string;
  /** Files that `upload` has sent. */
  artefacts?: NamedArtefact[];
}

export interface NewJob extends JobMembers {
  type: string;
  payload?: unknown;
}

/** What `edit` changes. */
export interface EditMembers {
  payload?: unknown; priority?: number; runAt?: number; delayMs?: number; tags?: string[]; limits?: string[];
  maxAttempts?: number;
  /** Retries a job that is dead, cancelled or expired. */
  retry?: boolean;
  /** The revision that the job must have: the number of its edits. */
  revision?: number;
}

/** A batch as `batch` and `waitBatch` return it. */
export interface BatchState {
  id: string;
  /** Is there when all jobs have ended. */
  endedAt?: number;
  total: number; pending: number; completed: number; dead: number; cancelled: number;
  [member: string]: any;
}

/** What `upload` returns: a file that has no job yet. */
export type NamedArtefact = { name: string; id: string };

/** A file of a job. */
export type Artefact = { name: string; size: number; sha256: string; sealed?: boolean };

/** The bytes of an artefact, or a file that has them, which is read twice. */
export type Bytes = string | Uint8Array | { path: string | URL };

/** Recognises a call that is made again within 24 h, also by another process. */
export interface Keyed {
  key?: string;
}

export type Status = "blocked" | "scheduled" | "unclaimed" | "in_progress" | "completed" | "dead" | "cancelled"
  | "expired";

/** A job as `get` and `wait` return it; the HTTP API has the other members. */
export interface JobState {
  id: string;
  type?: string;
  status: Status;
  payload?: any;
  result?: any;
  attempts: number;
  maxAttempts: number;
  lastError?: string;
  [member: string]: any;
}

/** A call that failed. */
export class QueueError extends Error {
  constructor(message: string, status?: number, tag?: string, committed?: "no" | "unknown");
  /** HTTP status of the last answer; 0: there was none. */
  status: number;
  /** The server's name for its refusal; "" if it gave none. */
  tag: string;
  /** "no": the write certainly did not take place. "unknown": send the same again, with its id or key. */
  committed: "no" | "unknown";
  /** The caller does not hold the job, or not any more. */
  leaseLost: boolean;
  /** The request is at fault: sent again it would be refused again. */
  refused: boolean;
}

/** The error of `wait` for a job that is dead, cancelled or expired. */
export class JobError extends QueueError {
  constructor(job: JobState);
  job: JobState;
}

/** Thrown by a handler to say how the attempt fails. Other errors fail it, too. */
export class Failure extends Error {
  /** Not retryable: the job is dead at once. delayMs: the time before the next attempt, instead of the backoff. */
  constructor(text: string, how?: { retryable?: boolean; delayMs?: number });
  how: { retryable?: boolean; delayMs?: number };
}

/** Thrown by a handler that cannot do the job yet: it runs again after ms, and the attempt does not count. */
export class Snooze extends Error {
  constructor(ms: number);
}

/** What a suspended job waits for: a time and a signal before it, or the end of a batch. */
export type Until = { forMs: number; signal?: string } | { batchId: string };

/** Thrown by `sleep`, `waitSignal` and `waitChildren` of a job that has to wait. A handler must let it pass: the
 *  attempt ends without being counted, and the worker is free. */
export class Suspend extends Error {
  constructor(until: Until);
  until: Until;
}

/** What a client did with a job. */
export type Event = "enqueued" | "claimed" | "completed" | "failed" | "released" | "suspended";

/** The nodes of one cluster. Make one and share it. */
export class Client {
  /** @param servers all nodes, as host:port, host (port 8080) or URL; without it those of OSQUEUE_SERVERS or context.
   *  Without ca (PEM), token and context: OSQUEUE_CA, OSQUEUE_TOKEN, OSQUEUE_CONTEXT, else the current context. */
  constructor(servers?: string[], options?: {
    attemptTimeoutMs?: number; retryForMs?: number; ca?: string; token?: string; context?: string;
    number?: (text: string) => any; // makes the values of numbers that JavaScript would write in another way
    /** Is called for each job. ms: from the claim to the report. */
    observe?: (event: Event, job: Job | undefined, ms: number) => void });
  /** Enqueues a job and returns its id; under a uniqueKey that another job holds, that job's. */
  submit(type: string, payload?: unknown, options?: JobMembers & Keyed): Promise<string>;
  /** Enqueues jobs and returns their ids. Up to 1000 of them, or 1 MB, go in all or none; more are cut in half. */
  submitMany(jobs: Iterable<NewJob>, options?: Keyed): Promise<string[]>;
  get(id: string): Promise<JobState>;
  /** Waits until the job has completed. A JobError: it ended otherwise. The tag "timeout": it has not ended. */
  wait(id: string, timeoutMs?: number): Promise<JobState>;
  stats(options?: { types?: boolean }): Promise<{ [figure: string]: any }>;
  /** A job that runs is cancelled when its worker has ended the attempt. */
  cancel(id: string, options?: Keyed): Promise<Status>;
  /** Changes a job that waits; with retry also one that is dead, cancelled or expired. */
  edit(id: string, members: EditMembers & Keyed): Promise<{ status: Status; revision: number; [member: string]: any }>;
  /** Enqueues jobs that run after each other, all or none, and returns the id of their batch. `steps` has them by the
   *  name of the step; `after` has names of earlier steps, whose results the job gets as its `parents`. The id of a
   *  job is that of the batch, a point and the name. */
  flow(steps: { [name: string]: NewJob }, options?: { id?: string }): Promise<string>;
  batch(id: string): Promise<BatchState>;
  /** Waits until all jobs of a batch have ended, however they have. The tag "timeout": they have not. */
  waitBatch(id: string, timeoutMs?: number): Promise<BatchState>;
  /** Sends a signal to a job that has not ended. The job gets a signal with the same id once. */
  sendSignal(job: string, name: string, value?: unknown, options?: { id?: string }): Promise<Status>;
  /** Makes a link by which anybody may send the job that signal, once. `path` is that of a page on any node. */
  makeLink(job: string, signal: string, forMs?: number): Promise<{ path: string; until: number }>;
  /** Sends the bytes of an artefact, up to 5 GiB, for a job that gets it within a day. They are not encrypted. */
  upload(name: string, data: Bytes): Promise<NamedArtefact>;
  artefacts(id: string): Promise<Artefact[]>;
  /** Reads an artefact of a job, part by part. A QueueError follows the last one if the bytes are not those that were
   *  uploaded, or comes first if they are encrypted. `buffer` of node:stream/consumers reads all. */
  openArtefact(id: string, name: string): AsyncGenerator<Uint8Array, void, void>;
  /** Leases jobs to the worker of that name. Within a minute the same `request` gets the same jobs again. */
  claim(worker: string, options?: {
    types?: string[]; max?: number; waitMs?: number; leaseMs?: number; request?: string; withinMs?: number;
    instance?: string; confirms?: boolean;
  }): Promise<Job[]>;
  /** Renews leases of one worker; the answers are in the order of the jobs. */
  heartbeat(worker: string, jobs: Job[], options?: { withinMs?: number }):
    Promise<{ jobId: string; status: string; cancel?: boolean }[]>;
  /** Lists the worker, and how many jobs it runs at once. From then on it has to be heard of every minute, by any call,
   *  or its jobs go back. */
  register(worker: string, types: string[], withinMs?: number, capacity?: number, instance?: string): Promise<unknown>;
  /** Takes the worker from the list, and its jobs back. */
  leave(worker: string, withinMs?: number, instance?: string): Promise<unknown>;
  /** Sends what running jobs have logged; the answer has the jobs that a client follows. */
  sendLogs(worker: string, parts: LogPart[], how?: { waitMs?: number; withinMs?: number }):
    Promise<{ jobId: string; token: number; offset: number }[]>;
  /** Ends a claim; when it is lost there is a QueueError with leaseLost. */
  report(job: Job, action: "complete", body?: { result?: unknown; log?: string }): Promise<unknown>;
  report(job: Job, action: "fail",
    body?: { error?: string; class?: string; retryable?: boolean; delayMs?: number }): Promise<unknown>;
  report(job: Job, action: "release", body?: { delayMs?: number }): Promise<unknown>;
  report(job: Job, action: "suspend", body: Until): Promise<unknown>;
  /** Stores a step of a claimed job, and returns the value that the job has: the first of that name. */
  storeStep(job: Job, name: string, value: unknown): Promise<any>;
  /** Gives a claimed job an artefact that has no job. One with the same name is replaced. */
  attach(job: Job, artefact: NamedArtefact): Promise<void>;
  /** Enqueues jobs as a batch with that id, whose parent is a claimed job. */
  addChildren(job: Job, id: string, jobs: NewJob[]): Promise<void>;
  /** Lets no job start for so long under a limit of the job. */
  throttle(job: Job, limit: string, forMs: number): Promise<unknown>;
  /** The number of jobs by event, and the time from claims to reports. */
  counts(): { [event in Event | "runMs"]: number };
  /** The same in the text format of Prometheus. */
  metrics(): string;
}

/** A part of what a running job has logged. */
export type LogPart = { jobId: string; token: number; offset: number; text: string };

/** A job that another one runs after. */
export interface Parent {
  name: string; jobId: string; status?: Status;
  result?: any;
  /** The size of a result that is too large to be here: `get` has it. */
  resultBytes?: number;
}

/** A claimed job. */
export class Job {
  /** Without a client, as in a test of a handler, steps are not stored. */
  constructor(worker: string, raw: { [member: string]: any }, client?: Client);
  worker: string;
  /** All that the server said. */
  raw: { [member: string]: any };
  id: string;
  type: string;
  payload: any;
  attempts: number;
  /** By a heartbeat before it starts: it is the last attempt, and the claim had `confirms`. */
  confirm: boolean;
  /** The jobs that it was enqueued to run after, by their names, steps or ids. */
  parents: { [name: string]: Parent };
  /** Of the producer, such as traceparent. */
  headers: { [name: string]: string };
  /** The time of the claim, by performance.now(). */
  began: number;
  /** The id, and that of the trace of the producer, for the log. */
  toString(): string;
  leaseMs: number;
  /** It grows with each claim: hand it on where the job changes something, and refuse lower ones there. */
  token: number;
  /** Is aborted when the handler is to end. */
  signal: AbortSignal;
  /** Why. "lost": another worker may run the job. */
  why: "" | "cancelled" | "stopping" | "lost";
  /** Tells how far the job is, in up to 500 characters. The next heartbeat takes it along, so it costs nothing. */
  progress(percent: number, message?: string): void;
  /** Adds lines to the log of the attempt. Those who follow the job see them; the last 16 KB are reported. */
  log(text: string): void;
  /** What was logged from that byte on, for `sendLogs`. */
  part(offset?: number): LogPart | undefined;
  /** Calls fn once for the job, over all its attempts and retries, and returns its result, JSON of up to 64 KiB. If an
   *  attempt ends while fn runs, fn is called again: let it use the job's id and the name as idempotency key. */
  step<T>(name: string, fn: () => T | Promise<T>): Promise<T>;
  /** Resolves when so long has passed since the job first came here; until then it throws a Suspend. */
  sleep(ms: number): Promise<void>;
  /** The value of the first signal of that name; until there is one it throws a Suspend. Tag "timeout": none came. */
  waitSignal(name: string, timeoutMs: number): Promise<any>;
  /** Adds jobs as a batch of this one, once over all its attempts. */
  addChildren(name: string, jobs: Iterable<NewJob>): Promise<void>;
  /** The children when all have ended, however they have; until then it throws a Suspend. */
  waitChildren(name: string): Promise<JobState[]>;
  /** Stores an artefact of the job, up to 5 GiB. One with the same name, also of an earlier attempt, is replaced. */
  put(name: string, data: Bytes): Promise<void>;
  /** Reads an artefact of the job, part by part: see `openArtefact`. */
  open(name: string): AsyncGenerator<Uint8Array, void, void>;
  end(why: "cancelled" | "stopping" | "lost"): void;
}

/** Runs jobs, keeps their leases alive, and reports exactly one outcome of each. It runs once. */
export class Worker {
  constructor(client: Client, options?: {
    concurrency?: number; name?: string; leaseMs?: number; pollWaitMs?: number; stopTimeoutMs?: number;
  });
  name: string;
  /** Gets a line for each failed call; standard error unless replaced. */
  log: (line: string) => void;
  /** Has jobs of the type run by the handler. What it returns, JSON, is the result. */
  handle(type: string, handler: (job: Job) => unknown): void;
  /** Claims nothing more: `run` ends when the running jobs are done or, after stopTimeoutMs, given back. */
  stop(): void;
  /** Works until `stop`, SIGINT or SIGTERM, a second one of which ends the program. */
  run(): Promise<number>;
}
