// Submits N jobs, one after the other, and prints their ids.
import { Client } from "./osqueue.mjs";

const q = new Client();
for (let i = 0; i < Number(process.env.N); i++) console.log(await q.submit("square", i));
