// Package hooks delivers webhooks: it sends the events that happen to jobs, and the alerts of
// a few rules, to the URLs of an operator.
//
// # Problem
//
// An operator wants to learn that a job died, or that a queue stands still, without a program
// that polls. The leader knows it, but the leader changes, receivers are slow or away, and a
// URL that a user may choose reaches into the network of the nodes.
//
// # Outbox
//
//	Apply ──▶ outbox of each hook ──▶ leader ──POST──▶ receiver
//	          (replicated state)        │
//	                ▲                   │ 2xx
//	                └── ReportHook ◀────┘
//
// The hooks and their outboxes are part of the state (fsm/hook.go). When the machine applies
// a change that a hook wants, it appends an event to the outbox of the hook, in the same log
// entry. So an event exists exactly if the change is committed, on every node, in snapshots
// and in the document. The leader sends the events of the outboxes and removes them with
// ReportHook, which names them one by one. A new leader finds in the outboxes what its
// predecessor had not reported: every event is delivered at least once.
//
// An outbox is a copy, and not a position in the log: the log is cut after a snapshot, and a
// position would keep it for the slowest receiver. Each hook has its own, so that one hook
// that is down pushes out only its own events.
//
// An outbox is bounded in bytes (2 MiB, --buffer; 64 MiB for all hooks together). When it is
// full, the machine drops the oldest event and counts it; "hook ls" shows the count.
//
// # Ids
//
// The id of an event is the LSN of its log entry and its number among the events of that
// entry. It is the same for every repetition, for every hook, and after every failover, and is
// the header webhook-id: receivers that store the last ids recognise duplicates. The body is
// made from the event alone, so it is the same as well; only webhook-timestamp and the
// signature are those of the attempt.
//
// # Delivery
//
// The leader has one sender for each hook, with up to 4 requests at a time; hooks do
// not share anything, so a receiver that hangs delays its own events only. A request ends
// after 10 s, the answer is read up to 64 KiB and thrown away, redirects are not followed.
// Requests use HTTP/1.1. A status from 200 to 299 is a success; everything else is a failure.
//
// An event that failed is sent again after 1 s, and then after twice the time before, up to
// 5 min, less up to half of it at random. While the last attempts of a hook all failed, its
// sender makes one request at a time, with pauses that grow in the same way, up to 30 s: a
// receiver that comes back is not flooded by retries. An event that is older than --retry-for
// (24 h) is given up and counted as failed. If the hook is put, all events are due at once. A
// test event (hook.test) waits for no other event and for no pause.
//
// Events that wait for a retry do not delay others. The sender reads the outbox once, with a
// cursor. Of the events before the cursor it keeps the id, the attempts and the time of the
// next one, about 130 bytes; of those behind it nothing. New events come before retries. After
// a failure with a pause the next event is a new one at random, not the oldest: if a receiver
// rejects a kind of events, a new leader may find hundreds of those before the first one that
// the receiver takes.
//
// The order of events is kept only as far as nothing fails. Receivers use the timestamp in
// the body. Attempts are counted by the leader, not by the state: after a failover the pauses
// begin at 1 s again. The limit of the retries is a time and does not depend on the leader.
//
// Reports are collected for 100 ms, so that many deliveries cost one log entry. Deliveries
// that a leader made and could not report are repeated by the next one; these are the only
// duplicates, apart from answers that got lost.
//
// # Signature
//
// Headers and signature are those of Standard Webhooks: webhook-id, webhook-timestamp
// (seconds) and webhook-signature, "v1," and the Base64 of the HMAC-SHA256 over
// id.timestamp.body. After a rotation both secrets sign for a day. Package client/webhook
// verifies.
//
// # Secrets
//
// Every leader must be able to sign, so the secret cannot be hashed. It is part of the state:
// sealed with AES-256-GCM if the nodes have a key file (--hook-key-file, the same on all), in
// clear if they have none. Then queue.json, snapshots and logs contain it, as they contain the
// payloads of jobs: who reads the bucket can forge deliveries. No answer of the API has it
// except that of the request that made it. docs/security.md says the same to operators.
//
// # Addresses
//
// The dialer resolves the name and refuses the connection if the address that it is about to
// use is private, loopback, link-local, multicast, unspecified, or reserved, unless
// --hook-allow contains it. The check is on the address of the connection, after the
// resolution, so a name that changes its address (DNS rebinding) gains nothing, and all ways to write an
// address end in the same one. IPv4 addresses inside of IPv6 ones (mapped, NAT64, 6to4)
// are checked as IPv4. Proxies of the environment are not used. http:// needs a flag of the
// hook.
//
// # Rules
//
// Most events are effects of log entries. Four come from rules, which the leader evaluates
// every 5 s in O(types) from the figures of types: queue.stuck, queue.failing, queue.dead and
// bucket.lag. It reports a change of a rule with SetAlert. The state has the alerts that fire;
// the machine makes an event only if SetAlert changes them. So a new leader continues with the
// alerts of the old one: nothing fires twice, and what ended during the failover is resolved.
// An alert keeps one id from firing to resolved. It is resolved when its condition has been
// false for two evaluations.
//
// # Failure stance
//
// Deliveries never delay a write: Apply appends, and nothing waits for a receiver. If the
// machine refuses a report, or if the node stops leading, the sender ends; the events are
// still in the outbox. A secret that this node cannot unseal is a failure of the hook, which
// "hook ls" shows.
package hooks
