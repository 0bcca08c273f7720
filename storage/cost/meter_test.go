package cost

import (
	"errors"
	"sync"
	"testing"
	"time"

	"osqueue/storage"
	"osqueue/storage/mem"
	"osqueue/storage/metered"
)

// clock is a time that a test sets.
type clock struct{ t time.Time }

func newClock() *clock                { return &clock{t: time.Unix(1_700_000_000, 0)} }
func (c *clock) now() time.Time       { return c.t }
func (c *clock) pass(d time.Duration) { c.t = c.t.Add(d) }

func observe(m *Meter, op storage.Op, result metered.Result, bytes int) {
	m.ObserveStorage(metered.Observation{Op: op, Result: result, Bytes: bytes})
}

// TestAMonthOfWrites lets 30 writes a minute pass for 30 days.
func TestAMonthOfWrites(t *testing.T) {
	c := newClock()
	m := NewMeter(DefaultPrices("s3"), 5*Dollar, c.now)
	for range 30 * 24 * 60 {
		for range 30 {
			c.pass(2 * time.Second)
			observe(m, storage.OpPutIfMatch, metered.Committed, 1000)
		}
	}
	s := m.Report()
	if s.Cost.String() != "$6.48" || s.Counts.Replaces != 1_296_000 || s.Counts.BytesWritten != 1_296_000_000 || s.Budget != 5*Dollar {
		t.Fatalf("%+v", s)
	}
	// The window is an hour and what there is of a minute; its last request is
	// just in.
	if off := s.Projected - s.Cost; off < 0 || off > Dollar/100 {
		t.Fatalf("projected %s of %s", s.Projected, s.Cost)
	}
	if got := c.t.Sub(s.Since); got != Month {
		t.Fatalf("counts since %v ago", got)
	}
}

// TestEveryRequestCounts: the store charges for what it refuses, too.
func TestEveryRequestCounts(t *testing.T) {
	c := newClock()
	m := NewMeter(DefaultPrices("s3"), 0, c.now)
	for _, r := range []metered.Result{metered.Committed, metered.Conflict, metered.Unknown, metered.Throttled, metered.Cancelled} {
		observe(m, storage.OpPutIfMatch, r, 10)
		observe(m, storage.OpPutIfAbsent, r, 1)
	}
	for _, r := range []metered.Result{metered.OK, metered.NotFound, metered.Failed} {
		observe(m, storage.OpGet, r, 7)
		observe(m, storage.OpList, r, 0)
		observe(m, storage.OpDelete, r, 0)
	}
	want := Counts{Replaces: 5, Creates: 5, Gets: 3, Lists: 3, Deletes: 3, BytesRead: 21, BytesWritten: 55}
	if s := m.Report(); s.Counts != want || s.Cost != 13*5000+3*400 || s.Cost != m.Spent() {
		t.Fatalf("%+v", s)
	}
	if got := want.ByOp(); got["put_if_match"] != 5 || got["put_if_absent"] != 5 || got["get"] != 3 || got["list"] != 3 || got["delete"] != 3 {
		t.Fatalf("by operation: %v", got)
	}
}

// A stream is a request like others, and a signed request is one of its user's. If nothing could be signed, the
// bytes pass through the node, whose request counts.
func TestStreamsCount(t *testing.T) {
	m := NewMeter(DefaultPrices("s3"), 0, newClock().now)
	observe(m, storage.OpPutStream, metered.Committed, 1000)
	observe(m, storage.OpSignPut, metered.OK, 100)
	observe(m, storage.OpGetRange, metered.OK, 10)
	observe(m, storage.OpStat, metered.OK, 0)
	observe(m, storage.OpSignGet, metered.OK, 0)
	for _, op := range []storage.Op{storage.OpSignPut, storage.OpSignGet} {
		m.ObserveStorage(metered.Observation{Op: op, Result: metered.Failed, Bytes: 100, Err: errors.ErrUnsupported})
	}
	want := Counts{Creates: 2, Gets: 3, BytesRead: 10, BytesWritten: 1100}
	if got := m.Report().Counts; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestStartIsNotProjected: twenty requests of a start in one second would be $259
// a month.
func TestStartIsNotProjected(t *testing.T) {
	c := newClock()
	m := NewMeter(DefaultPrices("s3"), 0, c.now)
	for range 20 {
		observe(m, storage.OpPutIfAbsent, metered.Committed, 1)
	}
	for _, after := range []time.Duration{0, time.Second, 9 * time.Minute} {
		c.pass(after)
		if got := m.Report().Projected; got.String() != "$0.432" {
			t.Fatalf("after %v: %s", after, got)
		}
	}
	c.pass(52 * time.Minute) // an hour and two minutes have passed
	if got := m.Report().Projected; got != 0 {
		t.Fatalf("an hour later: %s", got)
	}
}

func TestProjectionFollowsTheLastHour(t *testing.T) {
	c := newClock()
	m := NewMeter(DefaultPrices("s3"), 0, c.now)
	write := func(minutes, each int) {
		for range minutes {
			for range each {
				observe(m, storage.OpPutIfMatch, metered.Committed, 1)
			}
			c.pass(time.Minute)
		}
	}
	about := func(when string, want, tolerance Money) {
		t.Helper()
		if got := m.Report().Projected; got < want-tolerance || got > want+tolerance {
			t.Fatalf("%s: projected %s, want about %s", when, got, want)
		}
	}
	write(5, 30)
	about("after half of the least span", 3_240_000_000, 0)
	write(5, 30)
	about("after ten minutes", 6_480_000_000, 0)
	write(300, 30)
	about("after hours", 6_480_000_000, 0)
	write(30, 60)
	about("half an hour after it doubled", 9_720_000_000, 10_000_000)
	write(31, 60)
	about("when the hour is over", 12_960_000_000, 0)
	c.pass(3 * time.Hour)
	about("after silence", 0, 0)
}

func TestObservingAllocatesNothing(t *testing.T) {
	m := NewMeter(DefaultPrices("s3"), 0, nil)
	o := metered.Observation{Op: storage.OpGet, Key: "k", Result: metered.Failed, Err: errors.New("away")}
	if n := testing.AllocsPerRun(1000, func() { m.ObserveStorage(o) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func TestMeterFromManySides(t *testing.T) {
	m := NewMeter(DefaultPrices("s3"), Dollar, nil)
	p := NewPacer(m, time.Second)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				observe(m, storage.OpPutIfMatch, metered.Committed, 1)
				if m.Report().Cost <= 0 || p.Interval(time.Millisecond) < time.Millisecond {
					t.Error("a request got lost, or the interval is too short")
				}
			}
		})
	}
	all.Wait()
	if m.Spent() != 8000*5000 {
		t.Fatalf("spent %s", m.Spent())
	}
}

// TestMeterOfABucket counts what passes through a bucket.
func TestMeterOfABucket(t *testing.T) {
	m := NewMeter(DefaultPrices("s3"), 0, nil)
	b := metered.New(mem.New(), m.ObserveStorage)
	created := b.PutIfAbsent(t.Context(), "k", []byte("one"))
	b.PutIfAbsent(t.Context(), "k", []byte("two")) // a conflict
	b.PutIfMatch(t.Context(), "k", []byte("three"), created.Version)
	b.Get(t.Context(), "k")
	b.Get(t.Context(), "absent")
	b.List(t.Context(), "", func(storage.Info) bool { return true })
	b.Delete(t.Context(), "k")
	want := Counts{Creates: 2, Replaces: 1, Gets: 2, Lists: 1, Deletes: 1, BytesWritten: 11, BytesRead: 5}
	if got := m.Report().Counts; got != want {
		t.Fatalf("counted %+v, want %+v", got, want)
	}
}

func TestClockThatRunsBack(t *testing.T) {
	c := newClock()
	m := NewMeter(DefaultPrices("s3"), 0, c.now)
	c.pass(-time.Hour)
	observe(m, storage.OpGet, metered.OK, 1)
	if s := m.Report(); s.Counts.Gets != 1 || s.Projected != 400*6*24*30 {
		t.Fatalf("%+v", s)
	}
}

// A listing is charged by the page.
func TestPagesOfAListing(t *testing.T) {
	for listed, want := range map[int]uint64{0: 1, 1: 1, 1000: 1, 1001: 2, 100_000: 100} {
		var c Counts
		c.add(metered.Observation{Op: storage.OpList, Listed: listed})
		if c.Lists != want {
			t.Errorf("%d objects are %d pages, want %d", listed, c.Lists, want)
		}
	}
}
