// Runs idle workers until it is killed: idle.mjs NUMBER.
import { Client, Worker } from "./osqueue.mjs";

process.setMaxListeners(0);
for (let i = 0; i < Number(process.argv[2]); i++) {
  const worker = new Worker(new Client(), { concurrency: 8, name: `js-${i}` });
  worker.handle("nothing", () => null);
  worker.run();
}
