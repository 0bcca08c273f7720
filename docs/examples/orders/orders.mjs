// Charges, packs and ships orders, after a human has approved them: see README.md.
import { appendFileSync } from "node:fs";
import { Client, Failure, Worker } from "./osqueue.mjs";

const day = 24 * 3600 * 1000;

async function submit(queue, id, customer) {
  const payload = { id, customer };
  const flow = await queue.flow({
    charge: { type: "charge", payload, limits: [`customer:${customer}`] },
    invoice: { type: "invoice", payload, after: ["charge"] },
    pack: { type: "pack", payload, after: ["charge"] },
    approve: { type: "approve", payload, after: ["invoice", "pack"] },
    ship: { type: "ship", payload, after: ["invoice", "pack", "approve"], afterFailure: "cancel" },
  }, { id });
  console.log((await queue.makeLink(`${flow}.approve`, "approved", day)).path);
}

const handlers = {
  /** Charges the card once, also if the attempt ends before the receipt is sent. */
  async charge(job) {
    const paid = await job.step("charge", () => call("charge", job.payload));
    await job.step("receipt", () => call("receipt", job.payload));
    return paid;
  },

  invoice: (job) => `invoice of ${job.payload.id}, paid by ${job.parents.charge.result}`,

  pack: (job) => `parcel of ${job.payload.id}`,

  async approve(job) {
    try {
      return await job.waitSignal("approved", day);
    } catch (e) {
      throw e.tag === "timeout" ? new Failure(e.message, { retryable: false }) : e;
    }
  },

  async ship(job) {
    const sent = await job.step("ship", () => call("ship", job.payload));
    const { pack, invoice, approve } = job.parents;
    return [sent, pack.result, invoice.result, `approved by ${approve.result ?? ""}`]; // a link sends no value
  },
};

/** Stands for a call of another system, whose idempotency key would be the two. It notes its begin and end in a file. */
async function call(what, { id, customer }) {
  const note = (when) => appendFileSync("orders.log", `${when} ${what} ${id} ${customer} ${process.pid}\n`);
  note("begin");
  await new Promise((done) => setTimeout(done, 200));
  note("end");
  return `${what} of ${id}`;
}

const [command, ...args] = process.argv.slice(2);
if (command === "submit") {
  await submit(new Client(), ...args);
} else {
  const worker = new Worker(new Client(), { concurrency: 4 });
  for (const [type, handler] of Object.entries(handlers)) worker.handle(type, handler);
  await worker.run();
}
process.exit(0);
