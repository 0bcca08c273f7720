// Enqueues a job for each line of its input, with one client.
import { createInterface } from "node:readline";
import { Client } from "./osqueue.mjs";

const queue = new Client();
for await (const type of createInterface({ input: process.stdin })) console.log(await queue.submit(type));
process.exit(0);
