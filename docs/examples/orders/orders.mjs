// Charges, packs and ships orders, after a human has approved them: see README.md.
import { appendFileSync } from "node:fs";
import { Client, Failure, Worker } from "./osqueue.mjs";

const day = 24 * 3600 * 1000;

const pdf = (text) => "%PDF-1.4\n1 0 obj<</Pages 2 0 R>>endobj 2 0 obj<</Kids[3 0 R]/Count 1>>endobj 3 0 obj<</Parent 2 0 R" +
  "/Type/Page/MediaBox[0 0 400 60]/Contents 4 0 R/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>" +
  `endobj 4 0 obj<</Length ${25 + text.length}>>stream\nBT/F 9 Tf 10 30 Td(${text})Tj ET\nendstream endobj trailer<</Root 1 0 R>>\n`;

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

  /** Keeps the file as an artefact: osqueue job get ORDER.invoice invoice.pdf. */
  async invoice(job) {
    const text = `invoice of ${job.payload.id}, paid by ${job.parents.charge.result}`;
    await job.put("invoice.pdf", pdf(text));
    return text;
  },

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
