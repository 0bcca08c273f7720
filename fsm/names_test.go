package fsm_test

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm"
)

func TestCodes(t *testing.T) {
	seen := map[string]bool{}
	for c := fsm.OK; c < fsm.NumCodes; c++ {
		name, err := c.String(), c.Err()
		if name == "unknown" || name == "" || seen[name] {
			t.Errorf("code %d has the name %q", c, name)
		}
		seen[name] = true
		if done := c == fsm.OK || c == fsm.Duplicate || c == fsm.Replaced; c.Done() != done || (err == nil) != done {
			t.Errorf("%v: done %v, error %v", c, c.Done(), err)
		}
		if err != nil && (err.Error() == "" || !errors.Is(err, &fsm.Error{Code: c}) || errors.Is(err, &fsm.Error{})) {
			t.Errorf("%v: error %v", c, err)
		}
	}
	beyond := fsm.Code(fsm.NumCodes)
	if beyond.String() != "unknown" || beyond.Err().Error() != "refused" || errors.Is(beyond.Err(), errors.New("x")) {
		t.Errorf("code %d: %v, %v", beyond, beyond, beyond.Err())
	}
}

func TestStatuses(t *testing.T) {
	for _, s := range allStatuses {
		back, ok := fsm.ParseStatus(s.String())
		if !ok || back != s {
			t.Errorf("%v reads back as %v", s, back)
		}
	}
	for _, name := range []string{"", "Scheduled", "running"} {
		if s, ok := fsm.ParseStatus(name); ok {
			t.Errorf("%q reads as %v", name, s)
		}
	}
	if s := fsm.Expired + 1; s.String() != "" {
		t.Errorf("status %d has the name %q", s, s)
	}
}

func lsns() *rapid.Generator[fsm.LSN] {
	return rapid.Custom(func(t *rapid.T) fsm.LSN {
		return fsm.LSN{Term: rapid.Uint64().Draw(t, "term"), Index: rapid.Uint64().Draw(t, "index")}
	})
}

func TestLSN(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := lsns().Draw(t, "a"), lsns().Draw(t, "b")
		if back, err := fsm.ParseLSN(a.String()); err != nil || back != a {
			t.Fatalf("%v reads back as %v (%v)", a, back, err)
		}
		if a.Compare(b) != -b.Compare(a) || a.Compare(a) != 0 || (a.Compare(b) == 0) != (a == b) {
			t.Fatalf("%v and %v are not ordered", a, b)
		}
		if a.Term != b.Term && (a.Compare(b) < 0) != (a.Term < b.Term) {
			t.Fatalf("%v and %v: the term decides", a, b)
		}
		if a.IsZero() != (a.Compare(fsm.LSN{}) == 0) {
			t.Fatalf("%v: zero %v", a, a.IsZero())
		}
	})
	if got := (fsm.LSN{Term: math.MaxUint64, Index: 1}).String(); got != "18446744073709551615-1" {
		t.Error(got)
	}
}

func FuzzParseLSN(f *testing.F) {
	for _, s := range []string{"12-90210", "0-0", "", "-", "1-", "-1", "1-2-3", "+1-2", "1-18446744073709551616", "0x1-2", "1_0-2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := fsm.ParseLSN(s)
		if err != nil {
			if !errors.Is(err, fsm.ErrBadLSN) || l != (fsm.LSN{}) {
				t.Fatalf("%v %v", l, err)
			}
			return
		}
		if back, err := fsm.ParseLSN(l.String()); err != nil || back != l {
			t.Fatalf("%q is %v, which reads back as %v (%v)", s, l, back, err)
		}
	})
}
