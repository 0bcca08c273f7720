// Prints for each server of the arguments whether the client sends a token there.
import { Client } from "./osqueue.mjs";

for (const server of process.argv.slice(2)) {
  try {
    new Client([server], { token: "osq_x" });
    console.log("yes");
  } catch (e) {
    console.log(e.message.includes("without TLS") ? "no" : e.message);
  }
}
