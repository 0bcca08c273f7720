// Package legacy is a legacy broker (the TypeScript broker, v1) for tests that need one as
// a predecessor, as a rival on the same bucket, and as a successor.
//
// # Problem
//
// Recorded documents show the state that a legacy broker leaves behind. They do not show its
// next step: which brokers it takes for dead, which fields of an unknown document it keeps,
// and what it writes after a pause. So this broker runs as a process of its own, which a test
// can kill and pause.
//
// # Behaviour
//
//	REST ──▶ engine: all that wait ──▶ rules, on the parsed document ──▶ compare-and-swap
//	                    ▲                                                   │ conflict:
//	heartbeat ──────────┘                                                   ▼ read again
//
// The broker follows the recordings of the real one: elections, the document, and the routes
// that a client needs. The tests of this package replay the recordings against it. It parses
// and writes documents as JavaScript does: fields keep their places, numbers are doubles, and
// unknown fields stay.
//
// # Differences
//
// The broker has a recorded defect only if Config asks for it. It neither speaks Connect nor
// has WebSockets. It writes one version after another, where writes of the real one can
// conflict with each other. A deposed broker ends.
//
// The behaviour of the real one on a document without a list of jobs was not recorded. Its
// election does not read the jobs; Missing selects what happens next.
package legacy
