// Runs a worker whose jobs keep steps, wait and have children, sends them signals, and prints what came of it as one
// JSON object. OWN is the end of the names that belong to the test.
import { Client, Suspend, Worker } from "./osqueue.mjs";

const q = new Client(), own = process.env.OWN, seen = {}, called = [];
const w = new Worker(q, { name: `steps${own}` });
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const note = (name, value = null) => { called.push(name); return value; };

const handlers = {
  async fan(job) {
    const charge = await job.step("charge", async () => note("charge", { id: `ch_${job.attempts}` }));
    if (job.attempts === 1) throw new Error("after the step");
    const none = await job.step("none", () => { note("none"); });
    await job.sleep(300);
    await job.step("slept", () => note("slept"));
    await job.sleep(300);
    const late = await job.waitSignal("never", 300).catch((e) => {
      if (e instanceof Suspend) throw e;
      return e.tag === "timeout";
    });
    await job.addChildren("parts", [1, 2, 3].map((payload) => ({ type: `child${own}`, payload, maxAttempts: 1 })));
    const parts = (await job.waitChildren("parts")).map((c) => [c.status, c.result ?? null]);
    const by = await job.waitSignal("approved", 60000);
    return { charge, none, late, parts, by };
  },
  child(job) {
    if (job.payload === 2) throw new Error("no luck");
    return job.payload * 10;
  },
  total: ({ parents: { fan } }) => [fan.status, fan.result.by],
  linked: (job) => job.waitSignal("go", 60000),
  large: (job) => job.step("large", () => note("large", "x".repeat(70000))),
  "no-json": (job) => job.step("odd", () => note("odd", 1n)),
  lost() { throw new Suspend({ batchId: `nope${own}` }); },
  orphan: (job) => job.waitChildren("none"),
};
for (const [name, handler] of Object.entries(handlers)) w.handle(name + own, handler);
const running = w.run();
const awaiting = async (id, name) => { while ((await q.get(id)).awaits !== name) await sleep(20); };

const flow = await q.flow({
  fan: { type: `fan${own}`, backoff: { kind: "none" } },
  total: { type: `total${own}`, after: ["fan"] },
}, { id: `flow${own}` });
await awaiting(`${flow}.fan`, "approved");
seen.blocked = (await q.get(`${flow}.total`)).status;
seen.waitEnds = await q.waitBatch(flow, 300).catch((e) => e.tag === "timeout");
seen.signal = [await q.sendSignal(`${flow}.fan`, "approved", { by: "ann" }, { id: "s1" }),
  ["unclaimed", "in_progress", "completed"].includes(await q.sendSignal(`${flow}.fan`, "approved", { by: "bob" }, { id: "s1" }))];
const batch = await q.waitBatch(flow, 60000);
seen.batch = [batch.total, batch.completed, batch.pending];
const job = await q.get(`${flow}.fan`);
[seen.fan, seen.attempts] = [job.result, job.attempts];
seen.total = (await q.get(`${flow}.total`)).result;

let id = await q.submit(`linked${own}`);
await awaiting(id, "go");
const { path } = await q.makeLink(id, "go", 60000);
const server = process.env.OSQUEUE_SERVERS.split(",")[0];
await (await fetch(`http://${server}${path}`, { method: "POST" })).text();
seen.linked = (await q.wait(id, 60000)).result ?? null;

id = await q.submit(`child${own}`, 1, { delayMs: 3600000 });
const { revision } = await q.edit(id, { payload: 7, delayMs: 0, priority: 3 });
seen.edited = [revision, (await q.wait(id, 60000)).result, (await q.get(id)).priority];

for (const name of ["large", "no-json", "lost", "orphan"]) {
  const { job } = await q.submit(name + own).then((id) => q.wait(id, 60000)).catch((e) => e);
  seen[name] = [job.status, job.attempts, job.lastError.split(":")[0].replace(own, "")];
}
w.stop();
await running;
console.log(JSON.stringify({ ...seen, called }));
process.exit(0);
