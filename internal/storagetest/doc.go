// Package storagetest holds every driver and decorator of storage.Bucket to
// the same contract, and provides the hostile surroundings for their tests.
//
//   - Run is the conformance suite: semantics, versions, listing, races within
//     one process, and random operations against a model.
//   - Processes races operating-system processes against each other on one
//     bucket and kills some of them on the way; it needs Main in TestMain.
//   - VersityGW starts a real S3 server when its binary is there.
//
// The package is for tests only; nothing in the program imports it.
package storagetest
