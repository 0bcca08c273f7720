// Package clients tests the clients of clients/ and the examples of
// docs/examples from outside: their programs run as processes against clusters
// of real nodes, which are killed meanwhile.
//
// Both clients pass the same tests, and offer what the tests need by two small
// programs each, in testdata: flow goes through every call and prints what came
// of it, worker is a worker whose handlers note each start in a ledger.
package clients
