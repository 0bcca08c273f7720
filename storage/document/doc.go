// Package document reads and writes the document queue.json, which leads to the state of the
// queue.
//
// # Problem
//
// The document is the last copy of the queue when every node is lost, so a state must come
// back from it exactly. Its size and the cost of a write must not grow with the queue. People
// open the file, edit it by hand, and share it with legacy brokers, which know four of its
// fields.
//
// # Form
//
//	{"broker":"10.0.0.1:8080","brokerHeartbeat":1706000000000,
//	 "jobs":[…],"completedTotal":42,                    the view: the legacy broker's fields
//	 "osqueue":{"format":1,"level","lineage","cluster","epoch","node","address",
//	            "term","index","write","writes","heartbeat","fence","handovers",
//	            "registered","now","lastSeq","lastToken","counts",   what a candidate compares
//	            "view":"<SHA-256 of the text of jobs>"},
//	 "checkpoint":{"key","lsn","prev","at","raw","stored","sha256"},
//	 "kept":[{"lsn","prev","at"},…],
//	 "log":[{"key","after","last","entries","from","until","raw","stored","sha256"},…],
//	 "tail":{"after","last","entries","from","until","raw","sha256","zstd"}}
//
// The truth is checkpoint + log + tail (package archive), at every depth. There is no second
// encoding of the state. A young queue has no checkpoint: its log begins with an empty machine,
// and a small queue is one file.
//
// The list jobs has the available and the running jobs in FIFO order, with the legacy broker's
// fields only. It is derived from the state, costs at most ViewMax bytes, and is absent, never
// [], if it does not fit: a legacy broker must not take a deep queue for an empty one. Text that
// is not UTF-8 has replacement characters in it, and a payload that is not JSON is left out.
// LSNs are text in the form term-index, checksums are hex, and an integer that JavaScript cannot
// represent is quoted. Zero and empty values may be left out.
//
// # Who wrote it
//
//	header   broker, heartbeat     jobs and its checksum          the writer
//	none     –                     –                              a legacy broker
//	there    as in the header      equal                          a leader
//	there    as in the header      differ, or unknown fields      a leader, and then an edit (File.Edited)
//	there    differ                any                            another broker since (File.Overtaken)
//
// A legacy document is a state of its own (File.Legacy). A cluster adopts it when it is silent,
// and keeps a copy. Only the fields of the legacy broker count, and the jobs get their positions
// from the order of the list.
//
// An edit changes nothing of the state. Jobs that were added to the list (File.View) are
// enqueued through the log, if the edit is one of the newest version; a copy under conflicts/
// has the rest. Another broker is waited for until it is silent; then its document is an edit,
// and the jobs that it has completed may run again.
//
// Unknown fields are not kept.
//
// # Handovers
//
// When a cluster takes over the document of another one, the header records where the other
// cluster's part of the history ends. If a cluster adopts the document later and finds its own
// entry there, it knows which of its jobs the document never had: those with a seq above
// lastSeq. The entry of a cluster is removed when that cluster owns the document again.
//
// # Failure stance
//
// In a document with a header, the header and the archive are read strictly, and an error names
// the position. Decode checks that the parts of the archive are linked and that they reach the
// LSN of the header; package archive checks the objects and the tail by their checksums. The
// view is never a source of state. A file that was cut is not JSON. An edit that removes the
// header makes a legacy document without a lineage: a cluster with state refuses it.
//
// A queue must not be lost because of a job type that is a number. So a document without a
// header is unreadable only if it is not JSON, is not an object, has none of the known fields,
// or has a field jobs that is not an array:
//
//   - Text (id, type, workerId, broker) with another type is the JSON of the value: 5
//     becomes "5". Invalid Unicode becomes the replacement character.
//   - A number may be text, loses its fraction, and is clamped to the range of its kind:
//     natural for attempts and completedTotal. A value that is not a number counts as
//     absent, as does null.
//   - A time before 1970 is 0. A time after the year 9999 (for example in microseconds)
//     becomes the latest other time of the document: the clock of the machine never goes
//     back, and must not be set that far ahead.
//   - A job with a status that no legacy broker would hand out, and an element that is not an
//     object, become dead jobs with the reason in lastError.
//   - Of jobs with the same id the first keeps it; the others get a numeric suffix. Jobs
//     without an id become unnamed-1 and so on.
//   - A payload is kept byte for byte, whatever it is. A running job without a heartbeat
//     gets one lease from the takeover.
package document
