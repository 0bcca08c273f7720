// Uploads artefacts, runs a worker that reads and makes some, and prints what came of it as one JSON object. OWN is the end
// of the names that belong to the test; the jobs sealed and damaged are there before.
import { truncateSync, writeFileSync } from "node:fs";
import { buffer } from "node:stream/consumers";
import { Client, Job, Worker } from "./osqueue.mjs";

const q = new Client(), own = process.env.OWN, seen = {};
const data = Buffer.from(Array.from({ length: 300000 }, (_, i) => (i * 7) % 251)), reversed = Buffer.from(data).reverse();
const w = new Worker(q, { concurrency: 2, name: `artefacts${own}` });

w.handle(`scan${own}`, async (job) => {
  const got = await buffer(job.open("scan.tiff"));
  await job.put("text.pdf", "of an earlier attempt");
  await job.put("text.pdf", Buffer.from(got).reverse());
  return got.equals(data);
});
const running = w.run();
const failure = async (call) => {
  try { return [await call(), ""]; } catch (e) { return [e.tag ?? "", e.message]; }
};

writeFileSync("file", data);
const files = [await q.upload("scan.tiff", { path: "file" }), await q.upload("empty", "")];
truncateSync("file", 5 * 2 ** 30 + 1);
seen.large = (await failure(() => q.upload("large", { path: "file" })))[1].includes("at most 5 GiB");
const id = await q.submit(`scan${own}`, undefined, { id: `scan${own}`, artefacts: files });
seen.result = (await q.wait(id, 60000)).result;
seen.listed = (await q.artefacts(id)).map((a) => [a.name, a.size]);
for await (const part of q.openArtefact(id, "text.pdf")) {
  seen.parts = reversed.subarray(0, part.length).equals(part); // the rest is not wanted
  break;
}
seen.parts &&= (await buffer(q.openArtefact(id, "text.pdf"))).equals(reversed);
seen.empty = (await buffer(q.openArtefact(id, "empty"))).length;
w.stop();
await running;
seen.odd = (await failure(() => q.upload("odd", 7)))[1].includes("must be of type string");
seen.none = (await failure(() => buffer(q.openArtefact(id, "none"))))[0];
const raw = { jobId: id, token: 1, attempts: 1, leaseMs: 1 };
seen.lost = (await failure(() => new Job("w", raw, q).put("late", "")))[0];
const [tag, text] = await failure(() => buffer(q.openArtefact(`sealed${own}`, "secret.txt")));
seen.sealed = [tag, text.includes("osqueue job get --keys")];
seen.damaged = (await failure(() => buffer(q.openArtefact(`damaged${own}`, "a"))))[0];
const alone = new Job("w", raw);
seen.alone = [(await alone.put("a", "")) ?? null, (await failure(() => alone.open("a")))[1].includes("without a cluster")];
console.log(JSON.stringify(seen));
process.exit(0);
