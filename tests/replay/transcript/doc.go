// Package transcript reads recorded exchanges and compares answers with them. It does no I/O:
// the caller sends the requests and passes the answers.
//
// # Problem
//
// The answers of two older systems are recorded, case by case, and clients rely on them.
// Another system never answers with the same bytes: ids, times and addresses differ, and
// another runtime produces other texts. So each case says which parts of an answer count. A
// comparison that overlooks one of these annotations, or an unknown field of the recording,
// would accept wrong answers. Therefore the parser is strict: a field that this package does
// not know is an error.
//
//	file ──Load──▶ []Case ──Body, Expand──▶ request ··· answer ──Check──▶ *Difference
//	                            ▲                         │
//	                            └───── Vars ◀──Capture────┘
//
// # Compared parts
//
//   - status, or one of statusAlso; the recorded headers except those of the
//     transport (header.go); none of headersAbsent.
//   - A JSON body field by field, in any order, numbers by their exact value.
//     A message (proto) is decoded by a descriptor of this package's own, and
//     compared in the same way. Text is compared as it is.
//   - refs: the value is that of a variable, or that plus a number.
//   - volatile and soft: only the type. soft $text is a text that does not count.
//   - formats: an additional format of the value.
//   - jsonBytes: Base64 of JSON, compared as JSON.
//   - optional: may be absent, also if the recording does not have it.
//
// A path is $, followed by .name, [0] and [*].
//
// # Supersets
//
// Some routes belong to the native interface, whose answers have more fields. The recorded
// clients skip unknown fields, so some places of these answers may have fields that the
// recorded system did not know. A field that it knew and left out is a difference: an absent
// payload is not null.
package transcript
