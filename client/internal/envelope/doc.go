// Package envelope is the wire format of encrypted payloads, results and texts. It
// encrypts nothing.
//
// # Problem
//
// An encrypted payload must pass through everything that takes a payload: batches,
// schedules, the inbox, the bucket, clients without keys. So it is JSON:
//
//	{"osqueue.sealed":1,"to":"job","data":"BASE64"}
//
// Texts (errors, logs, messages of progress) are strings that begin with a prefix:
//
//	osqueue.sealed:1:BASE64
//
// The number is the version of the format. The field "to" says to which id the
// ciphertext is bound: that of the job, or the name of the schedule that enqueued
// the job, because its id is not known beforehand.
//
// # Associated data
//
// The ciphertext is authenticated together with its kind, the type and the id of the
// job, so that a writer of the bucket cannot move it to another job. Results
// and texts have no type, because reports do not carry one, and ids are unique.
// docs/encryption.md describes the bytes for other implementations.
//
// # Failure stance
//
// Input of another version, or that is damaged, is an error and never counts as
// plaintext. Input without the mark is plaintext.
package envelope
