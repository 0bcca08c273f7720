// Package original is a broker as the older system has it, for tests that need one
// as a predecessor, as a rival on the same bucket, and as a successor.
//
// # Problem
//
// Documents that were written down once show what such a broker leaves behind, but
// not what it does next: whom it takes for dead, what it keeps of a document that
// it does not understand, what it does when it wakes up too late. So there is one
// that runs, as a process of its own, which can be killed and stopped.
//
// # What it does
//
//	REST ──▶ engine: all that waits ──▶ rules, on the parsed document ──▶ compare-and-set
//	                    ▲                                                   │ conflict:
//	heartbeat ──────────┘                                                   ▼ read, again
//
// It follows what was observed of the real one: elections, the document, and the
// routes that a client needs. Its tests play the recordings of these against it.
// A document is parsed and written as JavaScript does it: members keep their
// places, numbers are doubles, members that it does not know stay.
//
// # Where it differs
//
// It has none of the recorded defects unless Config asks for one, and it neither
// speaks Connect nor has WebSockets. It writes one version after the other, where the
// real one gets into its own way. A broker that finds itself deposed ends.
//
// What the real one does with a document of ours that has no list of jobs was not
// recorded. Its election does not look at the jobs; what comes then is one of
// Missing.
package original
