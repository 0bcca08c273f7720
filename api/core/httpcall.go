package core

import (
	"osqueue/fsm"
)

// lsnHeader is an LSN as the value of a header.
type lsnHeader struct {
	lsn   fsm.LSN
	value [1]string
}

// LsnHeader returns the value of the header for an LSN, which must not be changed. The answers of
// one committed entry share it.
func (s *Core) LsnHeader(lsn fsm.LSN) []string {
	last := s.lastLSN.Load()
	if last == nil || last.lsn != lsn {
		last = &lsnHeader{lsn, [1]string{lsn.String()}}
		s.lastLSN.Store(last)
	}
	return last.value[:]
}
