// Package transcript reads recorded exchanges and judges answers by them. It has
// no effects: who plays the requests brings the answers.
//
// # Problem
//
// What two older systems answered is recorded, case by case, and clients rely on
// it. An answer of another system is never the same bytes: ids, times and
// addresses differ, and texts were made by another runtime. So each case says what
// counts, and a judge that overlooks one of these words, or a member of the
// recording that it does not know, passes what it should not. Therefore a case is
// read strictly: a member that this package does not know is an error.
//
//	file ──Load──▶ []Case ──Body, Expand──▶ request ··· answer ──Check──▶ *Difference
//	                            ▲                         │
//	                            └───── Vars ◀──Capture────┘
//
// # What counts
//
//   - status, or one of statusAlso; the recorded headers, but for those of the
//     transport (header.go); none of headersAbsent.
//   - A JSON body member by member, in any order, numbers by their exact value.
//     A message (proto) is decoded by a descriptor of this package's own, and
//     compared in the same way. Text is compared as it is.
//   - refs: the value is that of a variable, or that plus a number.
//   - volatile and soft: only the type. soft $text is a text that does not count.
//   - formats: what a value must look like besides.
//   - jsonBytes: Base64 of JSON, compared as JSON.
//   - optional: may be absent, also where the recording has left it out.
//
// A path is $, with .name, [0] and [*] behind it.
//
// # Supersets
//
// Some routes are those of the native interface, whose answers have more members.
// The recorded clients skip what they do not know, so at certain places of these
// answers members may stand that the recorded system had no notion of. One that it
// knows and left out is a difference: an absent payload is not null.
package transcript
