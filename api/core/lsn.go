package core

import (
	"net/http"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

const PathLSNWait = v1.PathLSN + "/{lsn}/" + v1.ActionWait

// LsnRequest is a request to wait for an LSN.
type LsnRequest struct {
	Lsn    fsm.LSN
	Level  string
	Object bool
	Wait   time.Duration
}

// positions are the LSN that a node has applied, and the one that it knows to be flushed.
type positions struct{ Applied, Flushed fsm.LSN }

func (s *Core) Positions() positions {
	st := s.Node.Status()
	return positions{Applied: st.LSN, Flushed: st.FlushedLSN}
}

// lsnGone is the answer for an LSN if it is unknown whether the LSN was reached.
var lsnGone = Kind{Status: http.StatusGone, Tag: v1.TagLSNGone, Title: "The LSN is from before an adoption"}

// MustBeOurs refuses an LSN of an earlier cluster. After an adoption all LSNs are
// higher, also than those of lost writes: a bucket past such an LSN does not prove
// that it contains the write.
func (s *Core) MustBeOurs(lsn fsm.LSN) error {
	if lsn.IsZero() || lsn.Term > s.Node.View().Meta().TermBase {
		return nil
	}
	at := s.Positions()
	f := Fail(lsnGone, "%s is older than the document that the cluster adopted from the bucket, so the write may be "+
		"lost; check it, or repeat it", lsn)
	f.Reached = &at
	return f
}

func (w LsnRequest) ReachedAt(at positions) bool {
	if w.Object {
		return at.Flushed.Compare(w.Lsn) >= 0
	}
	return at.Applied.Compare(w.Lsn) >= 0
}
