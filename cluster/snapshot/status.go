package snapshot

import "time"

// Point says which log entry a snapshot reaches, and since when it is there.
type Point struct {
	Term  uint64 // raft's term
	Index uint64 // raft's index; 0 while there is no snapshot
	At    time.Time
}

// Status is what an operator wants to know of a node's snapshots.
type Status struct {
	Local Point // the newest one on this node's disk
	// Bucket is the newest complete one in the bucket, of whatever node, as
	// far as this node knows. At is the clock of the node that uploaded it.
	Bucket     Point
	BucketNode string
	// Failing says why the upload that is due has not succeeded, "" while
	// nothing is wrong.
	Failing string
	// Damaged says which local snapshot cannot be read, until a new one is
	// made.
	Damaged string
}

// Status returns the state of affairs as of now.
func (s *Store) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

func (s *Store) report(change func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.status)
}

func newPoint(p point, ms int64) Point {
	return Point{Term: p.Term, Index: p.Index, At: time.UnixMilli(ms)}
}
