// Goes through every call of the client once, and prints what came of it as one JSON object.
import { Client, JobError } from "./osqueue.mjs";

const q = new Client(), seen = {};
const error = (call) => call().then(() => null,
  ({ tag, status, committed, leaseLost }) => ({ tag, status, committed, leaseLost }));
const ending = (id) => q.wait(id, 30000).then(({ status }) => status,
  (e) => [e.tag, e instanceof JobError && e.job.id === id, e.message.replace(id, "X")]);
const range = (n, make) => Array.from({ length: n }, (_, i) => make(i));
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

const id = await q.submit("flow", { n: 1 }, { priority: 5, maxAttempts: 4, tags: ["a"] });
seen.sameId = (await q.submit("flow", { n: 1 }, { id, priority: 5, maxAttempts: 4, tags: ["a"] })) === id;
seen.idTaken = await error(() => q.submit("flow", { n: 2 }, { id }));
const { type, status, payload, priority, maxAttempts, tags } = await q.get(id);
seen.got = { type, status, payload, priority, maxAttempts, tags };
const keyed = (key, payload = 1) => q.submit("keyed", payload, { key });
seen.sameKey = (await keyed("key-1")) === (await keyed("key-1"));
seen.otherKey = (await keyed("key-2")) !== (await keyed("key-1"));
seen.keyConflict = await error(() => keyed("key-1", 2));
const many = range(2500, (i) => ({ type: "many", payload: i }));
seen.many = new Set(await q.submitMany(many, { key: "all" })).size;
seen.manyAgain = same(await q.submitMany(many, { key: "all" }), await q.submitMany(many, { key: "all" }));
const big = await q.submitMany(range(5, (i) => ({ type: "big", payload: "x".repeat(300000), id: `big-${i}` })));
seen.big = same(big, range(5, (i) => `big-${i}`));
seen.none = await q.submitMany([]);
seen.oddId = (await q.get(await q.submit("odd", undefined, { id: "a/b?c=%2F" }))).id;
seen.unknownJob = await error(() => q.get("no-such-job"));

const claim = { types: ["flow"], waitMs: 5000, leaseMs: 60000, request: "r1" };
const first = await q.claim("w1", claim), again = await q.claim("w1", claim);
seen.claimedAgain = same(first.map((j) => j.id), [id]) && same(first.map((j) => j.token), again.map((j) => j.token));
seen.emptyClaim = (await q.claim("w1", { types: ["none"] })).length;
first[0].progress(40, "4 of 10");
seen.beat = (await q.heartbeat("w1", first))[0].status;
seen.progress = (await q.get(id)).progress.percent;
seen.released = (await q.report(first[0], "release")).status;
const second = await q.claim("w2", { types: ["flow"], max: 10 });
seen.tokenGrows = second[0].token > first[0].token;
seen.late = await error(() => q.report(first[0], "complete", { result: "late" }));
seen.completed = (await q.report(second[0], "complete", { result: { by: "w2" } })).status;
seen.completedTwice = (await q.report(second[0], "complete", { result: { by: "w2" } })).status;
seen.lateBeat = (await q.heartbeat("w1", first))[0].status;
seen.result = (await q.wait(id, 5000)).result;

const later = await q.submit("later", undefined, { delayMs: 3600000 });
seen.waitEnds = (await error(() => q.wait(later, 300))).tag === "timeout";
seen.cancelled = await q.cancel(later);
seen.cancelledJob = await ending(later);
const dead = await q.submit("dead");
await q.report((await q.claim("w1", { types: ["dead"] }))[0], "fail", { error: "hopeless", retryable: false });
seen.deadJob = await ending(dead);
seen.stats = (await q.stats({ types: true })).types.many.unclaimed;

seen.misspelt = (await error(() => q.submit("flow", 1, { maxAtempts: 5 }))).tag;
const away = new Client(["127.0.0.1:2"], { retryForMs: 300 });
seen.away = await error(() => away.submit("x"));
const began = performance.now(), patient = new Client(["127.0.0.1:2", "127.0.0.1:3"], { retryForMs: 60000 });
seen.awayRead = (await error(() => patient.get("x"))).committed;
if (performance.now() > began + 30000) seen.awayRead = null;
for (const [name, server] of [["bareHost", "255.255.255.255"], ["url", "http://255.255.255.255"]]) {
  const { message } = await new Client([server], { retryForMs: 100 }).get("x").catch((e) => e);
  seen[name] = message.includes("http://255.255.255.255:8080: ");
}
console.log(JSON.stringify(seen));
