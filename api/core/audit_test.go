package core

import (
	"strconv"
	"testing"

	v1 "osqueue/client/api/v1"
)

// A reader sees each entry once, learns how many it has missed, and sees all of a new process.
func TestAuditRing(t *testing.T) {
	r := NewAuditRing(10 * (auditOverhead + 1))
	put := func(from, to int) {
		for i := from; i < to; i++ {
			r.add(&v1.AuditEntry{Object: strconv.Itoa(i % 10)})
		}
	}
	read := func(cursor string, limit, want int, missed uint64) string {
		t.Helper()
		p, err := r.Page(cursor, limit)
		if err != nil || len(p.Entries) != want || p.Missed != missed {
			t.Fatalf("%d entries, %d missed, %v; want %d and %d", len(p.Entries), p.Missed, err, want, missed)
		}
		return p.NextCursor
	}
	none := read("", 5, 0, 0)
	put(0, 7)
	at := read(none, 5, 5, 0)
	at = read(at, 5, 2, 0)
	read(at, 5, 0, 0)
	put(7, 27)
	if len(r.entries) != 10 || r.bytes > r.max {
		t.Errorf("%d entries of %d bytes", len(r.entries), r.bytes)
	}
	read(at, 100, 10, 10)
	read("other-3", 100, 10, 0)
	for _, bad := range []string{"x", "x-", "-", r.start + "-28", r.start + "--1"} {
		if _, err := r.Page(bad, 1); err == nil {
			t.Errorf("the cursor %q is accepted", bad)
		}
	}
	NewAuditRing(0).add(&v1.AuditEntry{}) // keeps none
}
