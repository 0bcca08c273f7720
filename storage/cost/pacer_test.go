package cost

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"osqueue/storage"
	"osqueue/storage/metered"
)

// month is a flusher under a pacer for 30 simulated days. A flush is one PUT.
type month struct {
	budget        Money
	base, longest time.Duration
	clock         *clock
	meter         *Meter
	pacer         *Pacer

	least, most time.Duration // intervals seen
	stretched   int           // intervals longer than base
}

func newMonth(budget Money, base, longest time.Duration) *month {
	c := newClock()
	m := &month{budget: budget, base: base, longest: longest, clock: c, meter: NewMeter(DefaultPrices("s3"), budget, c.now), least: math.MaxInt64}
	m.pacer = NewPacer(m.meter, longest)
	return m
}

// run lets the flusher work: wait is how long after a flush the next change comes.
// Without one the heartbeat flushes.
func (m *month) run(wait func() time.Duration) {
	end := m.clock.now().Add(Month)
	for m.clock.now().Before(end) {
		observe(m.meter, storage.OpPutIfMatch, metered.Committed, 1)
		interval := m.pacer.Interval(m.base)
		m.least, m.most = min(m.least, interval), max(m.most, interval)
		if interval > m.base {
			m.stretched++
		}
		m.clock.pass(min(max(wait(), interval), m.longest))
	}
}

const flush = Money(5000) // on S3

// share returns the part of a month's budget for span.
func share(budget Money, span time.Duration) Money {
	return mulDiv(uint64(budget), uint64(span), uint64(Month))
}

func heartbeats(longest time.Duration) Money {
	return mulDiv(uint64(flush), uint64(Month), uint64(longest))
}

// TestBusyMonthKeepsTheBudget writes as fast as it may for a month.
func TestBusyMonthKeepsTheBudget(t *testing.T) {
	const budget = 5 * Dollar
	m := newMonth(budget, 50*time.Millisecond, 10*time.Second)
	m.run(func() time.Duration { return 0 })
	if limit, spent := budget+share(budget, burstSpan)+flush, m.meter.Spent(); spent > limit || spent < budget {
		t.Fatalf("spent %s of %s", spent, limit)
	}
	if m.least != m.base || m.most > 2600*time.Millisecond {
		t.Fatalf("intervals from %v to %v", m.least, m.most)
	}
}

// TestAnyMonthKeepsTheBudget has loads that come and go.
func TestAnyMonthKeepsTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		longest := time.Duration(rapid.Int64Range(int64(20*time.Second), int64(10*time.Minute)).Draw(t, "max"))
		base := time.Duration(rapid.Int64Range(int64(time.Second), int64(longest)).Draw(t, "base"))
		budget := heartbeats(longest)*Money(rapid.IntRange(100, 500).Draw(t, "percent of the heartbeats"))/100 + flush
		seed := rapid.Uint64().Draw(t, "seed")
		burst := rapid.IntRange(1, 5000).Draw(t, "burst")
		random := rand.New(rand.NewPCG(seed, 0))
		m, left, scale := newMonth(budget, base, longest), 0, time.Duration(0)
		m.run(func() time.Duration {
			if left--; left <= 0 {
				left, scale = 1+random.IntN(burst), time.Duration(random.Int64N(int64(2*longest)))
			}
			return time.Duration(random.Int64N(int64(scale) + 1))
		})
		if limit, spent := budget+share(budget, burstSpan)+flush, m.meter.Spent(); spent > limit {
			t.Fatalf("spent %s, the budget and what accrues at most are %s", spent, limit)
		}
		if m.least < base || m.most > longest {
			t.Fatalf("intervals from %v to %v, want %v to %v", m.least, m.most, base, longest)
		}
	})
}

// TestLowLoadIsNotStretched: what costs no more than the budget goes at full speed.
func TestLowLoadIsNotStretched(t *testing.T) {
	longest := 30 * time.Second
	m := newMonth(2*heartbeats(longest), time.Second, longest)
	n := 0
	m.run(func() time.Duration { // a burst of 100 changes each hour
		if n++; n%220 < 100 {
			return time.Second
		}
		return longest
	})
	if m.stretched > 0 {
		t.Fatalf("stretched %d times, to %v", m.stretched, m.most)
	}
}

// TestPacerPaysForAll: what the meter counted before the pacer was made is paid, too,
// nothing is paid twice, a debt is no longer than the longest interval, and credit has a bound.
func TestPacerPaysForAll(t *testing.T) {
	c := newClock()
	m := NewMeter(DefaultPrices("s3"), 5*Dollar, c.now)
	puts := int(share(5*Dollar, burstSpan)/flush) + 1
	for range puts / 3 {
		observe(m, storage.OpPutIfMatch, metered.Committed, 1)
	}
	base, longest := 50*time.Millisecond, 10*time.Second
	p := NewPacer(m, longest)
	if got := p.Interval(base); got != base {
		t.Fatalf("with two thirds of the credit: %v", got)
	}
	for range puts - puts/3 {
		observe(m, storage.OpPutIfAbsent, metered.Conflict, 1)
	}
	first := p.Interval(base)
	if steady := time.Duration(float64(flush) / float64(5*Dollar) * float64(Month)); first <= base || first > steady {
		t.Fatalf("without credit: %v, want at most %v", first, steady)
	}
	if again := p.Interval(base); again != first {
		t.Fatalf("paid twice: %v, then %v", first, again)
	}
	for range 3 * puts { // more than a burst at once
		observe(m, storage.OpGet, metered.Committed, 1)
		observe(m, storage.OpPutIfMatch, metered.Committed, 1)
	}
	if got := p.Interval(base); got != longest {
		t.Fatalf("with a debt of a day: %v", got)
	}
	c.pass(12 * time.Hour)
	if got := p.Interval(base); got != longest {
		t.Fatalf("after half a day's rest: %v", got)
	}
	c.pass(Month)
	for range puts {
		observe(m, storage.OpPutIfMatch, metered.Committed, 1)
	}
	if got := p.Interval(base); got <= base {
		t.Fatalf("the credit of a month is more than that of six hours: %v", got)
	}
}
