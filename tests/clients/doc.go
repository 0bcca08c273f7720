// Package clients tests the clients of clients/ and the examples of docs/examples from outside:
// their programs run as processes against clusters of real nodes, and the tests kill nodes
// meanwhile.
//
// Both clients pass the same tests. Each has two small programs in testdata for them: flow
// makes every call and prints the results, and worker is a worker whose handlers record each
// start in a ledger.
package clients
