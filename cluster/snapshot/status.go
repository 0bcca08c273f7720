package snapshot

import "time"

// Point is the log entry that a snapshot reaches, and the time of the snapshot.
type Point struct {
	Term  uint64 // raft's term
	Index uint64 // raft's index; 0: no snapshot
	At    time.Time
}

// Status describes a node's snapshots for an operator.
type Status struct {
	Local Point // the newest one on this node's disk
	// Bucket is the newest complete snapshot in the bucket that this node knows of, of any
	// node. At is in the clock of the node that uploaded it.
	Bucket     Point
	BucketNode string
	// Failing is the error of the upload that is due, "" if there is none.
	Failing string
	// Damaged is the error of a damaged local snapshot, until a new snapshot is made.
	Damaged string
}

// Status returns the current status.
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
