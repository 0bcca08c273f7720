package archive

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"osqueue/fsm"
)

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// rebuilt returns a copy of m by way of a snapshot.
func rebuilt(m *fsm.Machine) *fsm.Machine {
	var buf bytes.Buffer
	must(m.View().Encode(&buf))
	c, err := fsm.Decode(&buf)
	must(err)
	return c
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// plainEntries are n entries with data that does not mean anything.
func plainEntries(after fsm.LSN, n int) []Entry {
	entries := make([]Entry, n)
	for i := range entries {
		entries[i] = Entry{
			LSN:  fsm.LSN{Term: after.Term, Index: after.Index + uint64(i) + 1},
			At:   1_700_000_000_000 + int64(i)*3,
			Data: fmt.Appendf(nil, "entry number %d of them all", i),
		}
	}
	return entries
}

func sameEntry(a, b Entry) bool { return a.LSN == b.LSN && a.At == b.At && bytes.Equal(a.Data, b.Data) }
