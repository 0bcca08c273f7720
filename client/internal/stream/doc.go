// Package stream is the client's side of the stream protocol of docs/stream.md: connections that
// many callers share.
//
// Dial upgrades an HTTP connection. Conn.Do sends one request and waits for its answer; any
// number of goroutines may call it. Two goroutines of a connection read and write; both end with Close.
// The writer takes all requests that are queued, so that callers that run at the same time
// share one write.
//
// # Failure stance
//
// If the connection breaks, every call in progress returns an error, and reports whether the
// request was sent. A request that was sent may have been carried out. A connection from which no byte
// arrives for three ping intervals counts as broken: the server pings. If a caller gives up,
// the connection sends a cancellation, so that a claim leases no job to it, and ignores a late answer.
package stream
