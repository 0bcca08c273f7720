// Package api serves the calls of clients at one node, over HTTP and streams.
//
// # Problem
//
// A client may know any node, not necessarily the leader. Its answer may get lost, and the
// leader may change during a call. The client must get the answer of the active leader, or
// learn exactly what is known: that the write was not committed, or that it may have been.
//
// # Packages
//
//	core                                what a call is, and the one way to answer it
//	jobs, work, queues, admin, node     the operations of one subject each
//	api (this one)                      the front ends, and who may connect
//	stream, hooks, livelog, tracing, ui frames; webhooks; logs of running jobs; spans; the dashboard
//
// The router (gorilla/mux) matches the method and the path of a call, of HTTP and of a frame alike, and has a subrouter for
// each subject and action. The busy routes come first, without the regular expressions of mux. One handler answers 404, and
// one 405. httpcall.go turns a request into a call and encodes its answer; frames.go does the same for a frame of a stream.
//
// A call is forwarded at most once: the header Osqueue-Forwarded marks it. If the leader could not be
// reached, the problem has committed "no". If the connection broke after the call was sent, it has
// committed "unknown".
//
// openapi.yaml describes the bodies and the routes, and every node serves it. The tests compare it
// with the routes and the wire types, and compare every answer that they get with it.
//
// # Failure stance
//
// A connection over a bound gets an answer that says so where that costs little, and is closed otherwise. A slow reader is
// cut off. A request that was refused before its body was read still gets its answer. When the server stops, waits end at
// once, and other calls may end.
package api
