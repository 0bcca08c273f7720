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
  afterFailure?: "block" | "cancel" | "run";
  batchId?: string;
}

export interface NewJob extends JobMembers {
  type: string;
  payload?: unknown;
}

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

/** What a client did with a job. */
export type Event = "enqueued" | "claimed" | "completed" | "failed" | "released";

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
  /** Lets no job start for so long under a limit of the job. */
  throttle(job: Job, limit: string, forMs: number): Promise<unknown>;
  /** The number of jobs by event, and the time from claims to reports. */
  counts(): { [event in Event | "runMs"]: number };
  /** The same in the text format of Prometheus. */
  metrics(): string;
}

/** A part of what a running job has logged. */
export type LogPart = { jobId: string; token: number; offset: number; text: string };

/** A claimed job. */
export class Job {
  constructor(worker: string, raw: { [member: string]: any });
  worker: string;
  /** All that the server said. */
  raw: { [member: string]: any };
  id: string;
  type: string;
  payload: any;
  attempts: number;
  /** By a heartbeat before it starts: it is the last attempt, and the claim had `confirms`. */
  confirm: boolean;
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
