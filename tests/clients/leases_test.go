package clients

import "testing"

// Before a lease ends without a renewal, no heartbeat waits beyond that end, so that the
// handler learns of it in time. A wall clock that is set back delays no heartbeat.
func TestHeartbeatsBeforeTheEndOfALease(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		const raw = `{"jobId": "j", "type": "t", "token": 1, "attempts": 1, "leaseMs": 6000, "leaseAgeMs": 5000}`
		command := []string{"python3", "-c", `
import threading
from osqueue import Job, Worker
beaten = threading.Event()
class Queue:
    jobs = [Job("w", ` + raw + `)]
    def claim(self, *args, **how): return [self.jobs.pop()] if self.jobs else []
    def heartbeat(self, name, jobs, within):
        if not beaten.is_set(): print(within <= 1)
        beaten.set()
        return [{"status": "ok"}]
    def register(self, *args, **how): return 10.0
    def leave(self, *args, **how): pass
    def report(self, *args, **how): pass
worker = Worker(Queue(), concurrency=1)
worker.handle("t", lambda job: (beaten.wait(), worker.stop()) and None)
worker.run()`}
		want := "True\n"
		if l.name == "js" {
			command = []string{"node", "--input-type=module", "-e", `
import { Job, Worker } from "./osqueue.mjs";
let beat;
const beaten = new Promise((resolve) => { beat = resolve; });
const jobs = [new Job("w", ` + raw + `)];
Date.now = () => 0;
const worker = new Worker({
  claim: async () => jobs.splice(0),
  heartbeat: async (name, held, { withinMs }) => (beat(withinMs <= 1000), [{ status: "ok" }]),
  register: async () => {}, leave: async () => {}, report: async () => {},
}, { concurrency: 1 });
worker.log = () => {};
worker.handle("t", async () => { console.log(await beaten); worker.stop(); });
await worker.run();`}
			want = "true\n"
		}
		if out := run(t, l.desk(t), nil, command...); out != want {
			t.Errorf("%q, want %q", out, want)
		}
	})
}
