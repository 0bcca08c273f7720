// A worker for the tests. Each handler notes in the file LEDGER that it has begun: type, id, attempt, token.
// OWN is the end of the names that belong to the test.
import { appendFileSync, existsSync } from "node:fs";
import { Client, Failure, Snooze, Worker } from "./osqueue.mjs";

const { env } = process, own = env.OWN ?? "";
const client = new Client(), { report } = client;
client.report = async (job, action, body) => {
  await report.call(client, job, action, body);
  console.log(`job ${job.id}: ${action}`); // what the Python client logs
};
const w = new Worker(client, {
  concurrency: Number(env.CONCURRENCY ?? 4), name: env.NAME, leaseMs: Number(env.LEASE_MS ?? 0),
  stopTimeoutMs: Number(env.STOP_MS ?? 20000), pollWaitMs: Number(env.POLL_MS ?? 2000),
});
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const handle = (type, handler) => w.handle(type + own, (job) => {
  appendFileSync(env.LEDGER, `${w.name} ${type} ${job.id} ${job.attempts} ${job.token}\n`);
  return handler(job);
});

handle("square", async (job) => {
  await sleep(20);
  return { n: job.payload, square: job.payload ** 2 };
});
const gate = async (job) => {
  while (!existsSync(job.payload)) await sleep(20);
  return { by: w.name, why: job.why };
};
handle("gate", (job) => {
  job.progress(50, "at the gate");
  return gate(job);
});
handle("talk", async (job) => {
  for (let i = 0; i < 30; i++) {
    job.log(`${i} é`);
    await sleep(100);
  }
  return gate(job);
});
handle("babble", (job) => {
  job.progress(50, { far: "x".repeat(100000) });
  return gate(job);
});
handle("until-stopped", async (job) => {
  await new Promise((done) => job.signal.addEventListener("abort", done));
  throw new Error(`ended, ${job.why}`);
});
handle("broken", (job) => { throw new TypeError(`no such luck: ${job.payload}`); });
handle("hopeless", () => { throw new Failure("never again", { retryable: false }); });
handle("later", () => { throw new Failure("in an hour", { delayMs: 3600000 }); });
handle("snooze", () => { throw new Snooze(3600000); });
handle("throttle", (job) => client.throttle(job, `api${own}`, 3600000).then(() => null));
handle("odd", (job) => { throw new Failure("an odd delay", { delayMs: job.payload }); });
handle("no-json", () => 1n);
handle("too-much", () => "x".repeat(5000000));
console.log("ready");
process.exit((await w.run()) > 0 ? 1 : 0);
