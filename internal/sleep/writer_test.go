package sleep_test

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/internal/sleep"
)

type slow struct {
	bytes.Buffer
	took time.Duration
	err  error
}

func (s *slow) Write(b []byte) (int, error) {
	time.Sleep(s.took)
	n, _ := s.Buffer.Write(b)
	return n, s.err
}

// TestRests checks that a rest is as long as the work before it, and bounded.
func TestRests(t *testing.T) {
	for _, c := range []struct{ caller, write, rest time.Duration }{
		{0, 0, 0},
		{2 * time.Millisecond, 0, 2 * time.Millisecond},
		{time.Millisecond, 3 * time.Millisecond, 4 * time.Millisecond},
		{0, time.Minute, 10 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &slow{took: c.write}
			w := sleep.NewWriter(s)
			for range 3 {
				time.Sleep(c.caller)
				began := time.Now()
				if n, err := w.Write([]byte("state")); n != 5 || err != nil {
					t.Fatal(n, err)
				}
				if rest := time.Since(began) - c.write; rest != c.rest {
					t.Errorf("after %v of the caller and %v of the write it rests for %v, want %v", c.caller, c.write, rest, c.rest)
				}
			}
			if got := s.String(); got != "statestatestate" {
				t.Errorf("it wrote %q", got)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	broken := errors.New("broken")
	if _, err := sleep.NewWriter(&slow{err: broken}).Write(nil); !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
}
