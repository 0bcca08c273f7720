package fsmpb

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// LSN is the log sequence number of an entry: its place in the history of a lineage. LSNs
// are ordered by term, then by index, and never decrease, not even when another cluster
// takes the lineage over. The zero LSN comes before every entry.
type LSN struct {
	Term  uint64
	Index uint64
}

// Compare returns -1, 0 or +1 as l is before, equal to or after o.
func (l LSN) Compare(o LSN) int {
	return cmp.Or(cmp.Compare(l.Term, o.Term), cmp.Compare(l.Index, o.Index))
}

// IsZero reports whether l comes before every entry.
func (l LSN) IsZero() bool { return l == LSN{} }

// String prints l as term-index, the form that ParseLSN reads.
func (l LSN) String() string {
	b := strconv.AppendUint(make([]byte, 0, 24), l.Term, 10)
	return string(strconv.AppendUint(append(b, '-'), l.Index, 10))
}

// ErrBadLSN is wrapped by ParseLSN.
var ErrBadLSN = errors.New("not an LSN (write term-index, for example 12-90210)")

// ParseLSN reads the text of LSN.String. Its error wraps ErrBadLSN.
func ParseLSN(s string) (LSN, error) {
	term, index, _ := strings.Cut(s, "-")
	t, errTerm := strconv.ParseUint(term, 10, 64)
	i, errIndex := strconv.ParseUint(index, 10, 64)
	if errTerm != nil || errIndex != nil {
		return LSN{}, fmt.Errorf("%q: %w", s, ErrBadLSN)
	}
	return LSN{Term: t, Index: i}, nil
}

// LSN returns the LSN of the last applied entry.
func (m *Meta) LSN() LSN { return LSN{Term: m.Term, Index: m.Index} }
