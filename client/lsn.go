package client

import (
	"strconv"
	"strings"
	"sync"
)

// lsnMark remembers the newest LSN of all answers. Its zero value has none. It is
// safe for concurrent use.
type lsnMark struct {
	mu          sync.Mutex
	term, index uint64
}

// note records the LSN of an answer. It ignores an invalid one, because the mark
// only makes reads wait.
func (m *lsnMark) note(text string) {
	term, index, ok := parseLSN(text)
	if !ok {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if term > m.term || (term == m.term && index > m.index) {
		m.term, m.index = term, index
	}
}

// forget removes the mark, unless it is newer than text. The cluster does not know
// that LSN any more.
func (m *lsnMark) forget(text string) {
	term, index, ok := parseLSN(text)
	m.mu.Lock()
	defer m.mu.Unlock()
	if ok && m.term == term && m.index == index {
		m.term, m.index = 0, 0
	}
}

// String returns the mark in the wire format, or "" if there is none.
func (m *lsnMark) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.term == 0 && m.index == 0 {
		return ""
	}
	return strconv.FormatUint(m.term, 10) + "-" + strconv.FormatUint(m.index, 10)
}

// parseLSN parses an LSN, which is written term-index.
func parseLSN(text string) (term, index uint64, ok bool) {
	left, right, found := strings.Cut(text, "-")
	if !found {
		return 0, 0, false
	}
	term, err1 := strconv.ParseUint(left, 10, 64)
	index, err2 := strconv.ParseUint(right, 10, 64)
	return term, index, err1 == nil && err2 == nil
}
