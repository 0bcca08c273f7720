// Prints the result of the job of the argument: a number as it is, and all of them with the option number.
import { Client } from "./osqueue.mjs";

const [id] = process.argv.slice(2);
console.log((await new Client().wait(id, 20000)).result[0]);
const exact = (await new Client(undefined, { number: String }).wait(id, 20000)).result;
console.log(exact.join(" "));
