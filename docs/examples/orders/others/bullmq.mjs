// The orders with BullMQ and Redis: steps and the signal are data of the jobs, the file is a key of its own.
import { appendFileSync } from "node:fs";
import { DelayedError, FlowProducer, Queue, UnrecoverableError, Worker } from "bullmq";

const day = 24 * 3600 * 1000, queueName = "orders";
const connection = { host: "127.0.0.1", port: Number(process.env.REDIS_PORT ?? 6379) };
const queue = new Queue(queueName, { connection }), flows = new FlowProducer({ connection });

const pdf = (text) => "%PDF-1.4\n1 0 obj<</Pages 2 0 R>>endobj 2 0 obj<</Kids[3 0 R]/Count 1>>endobj 3 0 obj<</Parent 2 0 R" +
  "/Type/Page/MediaBox[0 0 400 60]/Contents 4 0 R/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>" +
  `endobj 4 0 obj<</Length ${25 + text.length}>>stream\nBT/F 9 Tf 10 30 Td(${text})Tj ET\nendstream endobj trailer<</Root 1 0 R>>\n`;

const options = (id, name) => ({ jobId: `${id}.${name}`, attempts: 10, backoff: { type: "exponential", delay: 1000 } });

const commands = {
  submit: (id, customer) => queue.add("charge", { id, customer }, options(id, "charge")),

  /** A signal that comes while the job is started is lost: it has read its data, and overwrites them. */
  async approve(id, by) {
    const job = await queue.getJob(`${id}.approve`);
    await job.updateData({ ...job.data, by });
    if (await job.isDelayed()) await job.promote();
  },
};

/** Makes the call unless its result is stored. */
async function step(job, name) {
  if (!(name in job.data)) await job.updateData({ ...job.data, [name]: await call(name, job.data) });
  return job.data[name];
}

async function later(job, at, token) {
  await job.moveToDelayed(at, token);
  throw new DelayedError();
}

const handlers = {
  async charge(job, token) {
    const redis = await queue.client, { id, customer } = job.data;
    const take = (slot) => redis.set(slot, job.id, "PX", 60000, "NX");
    const slot = (await take(`${customer}.1`)) ? `${customer}.1` : (await take(`${customer}.2`)) && `${customer}.2`;
    if (!slot) await later(job, Date.now() + 1000, token);
    try {
      const paid = await step(job, "charge");
      await step(job, "receipt");
      const of = (name, how) => ({ name, queueName, data: { id, customer, paid }, opts: options(id, name), ...how });
      await flows.add(of("ship", { children: [of("approve", {
        opts: { ...options(id, "approve"), failParentOnFailure: true }, children: [of("invoice"), of("pack")],
      })] }));
      return paid;
    } finally { if ((await redis.get(slot)) === job.id) await redis.del(slot); }
  },

  async invoice(job) {
    const text = `invoice of ${job.data.id}, paid by ${job.data.paid}`;
    await (await queue.client).set(`order:${job.data.id}:invoice.pdf`, pdf(text));
    return text;
  },

  pack: async (job) => `parcel of ${job.data.id}`,

  async approve(job, token) {
    const { by, until = Date.now() + day } = job.data;
    if (!by && until < Date.now()) throw new UnrecoverableError(`${job.data.id} was not approved in time`);
    if (!by) {
      await job.updateData({ ...job.data, until });
      await later(job, until, token);
    }
    const values = await job.getChildrenValues();
    return [...["invoice", "pack"].map((name) => values[`bull:${queueName}:${job.data.id}.${name}`]), by];
  },

  async ship(job) {
    const [[invoice, pack, by]] = Object.values(await job.getChildrenValues());
    return [await step(job, "ship"), pack, invoice, `approved by ${by}`];
  },
};

/** Stands for a call of another system. It notes its begin and end in a file. */
async function call(what, { id, customer }) {
  const note = (when) => appendFileSync("orders.log", `${when} ${what} ${id} ${customer} ${process.pid}\n`);
  note("begin");
  await new Promise((done) => setTimeout(done, 200));
  note("end");
  return `${what} of ${id}`;
}

const [command, ...args] = process.argv.slice(2);
if (command === "worker") {
  new Worker(queueName, (job, token) => handlers[job.name](job, token), { connection, concurrency: 4 });
} else {
  await commands[command](...args);
  process.exit(0);
}
