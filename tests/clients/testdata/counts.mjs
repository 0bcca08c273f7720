// Makes one call of each kind that is counted, and prints what was counted as one JSON object.
import { Client } from "./osqueue.mjs";

const events = [];
const q = new Client(undefined, { observe: (event, job, ms) => {
  events.push([event, job?.type ?? null, ms >= 0]);
  throw new Error("it must not fail the call");
} });
await q.submit("a", undefined, { headers: { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" } });
await q.submitMany([{ type: "b" }, { type: "b" }, { type: "b" }]);
const [job] = await q.claim("w", { types: ["a"] });
const line = `${job}`.replace(job.id, "ID");
await q.report(job, "complete");
const [one, two, three] = await q.claim("w", { types: ["b"], max: 3 });
await q.report(one, "fail");
await q.report(two, "release");
await q.report(three, "suspend", { forMs: 60000 });
const { runMs, ...counts } = q.counts();
console.log(JSON.stringify({ counts, timed: runMs > 0, events, line, metrics: q.metrics() }));
process.exit(0);
