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

// month is a flusher under a limiter for 30 simulated days.
type month struct {
	pace    Pace
	limiter *Limiter
	now     time.Time
	spent   Money

	least, most time.Duration // intervals seen
	stretched   int           // intervals longer than Base
}

func newMonth(p Pace) *month {
	start := time.Unix(1_700_000_000, 0)
	return &month{pace: p, limiter: NewLimiter(p, start), now: start, least: math.MaxInt64}
}

func (m *month) spend(x Money) {
	m.spent += x
	m.limiter.Spend(x)
}

// run lets the flusher work: wait is how long after a flush the next change comes.
// Without one the heartbeat flushes.
func (m *month) run(wait func() time.Duration) {
	end := m.now.Add(Month)
	for m.now.Before(end) {
		m.spend(m.pace.Flush)
		interval := m.limiter.Interval(m.now)
		m.least, m.most = min(m.least, interval), max(m.most, interval)
		if interval > m.pace.Base {
			m.stretched++
		}
		m.now = m.now.Add(min(max(wait(), interval), m.pace.Max))
	}
}

func heartbeats(p Pace) Money { return mulDiv(uint64(p.Flush), uint64(Month), uint64(p.Max)) }

// TestBusyMonthKeepsTheBudget writes as fast as it may for a month, on S3.
func TestBusyMonthKeepsTheBudget(t *testing.T) {
	p := Pace{Budget: 5 * Dollar, Flush: 5000, Base: 50 * time.Millisecond, Max: 3 * time.Second}
	m := newMonth(p)
	m.run(func() time.Duration { return 0 })
	if limit := p.Budget + share(p.Budget, startSpan) + p.Flush; m.spent > limit {
		t.Fatalf("spent %s of %s", m.spent, limit)
	}
	if m.spent < p.Budget {
		t.Fatalf("spent %s only, of %s", m.spent, p.Budget)
	}
	if m.least != p.Base || m.most > 2600*time.Millisecond {
		t.Fatalf("intervals from %v to %v", m.least, m.most)
	}
}

// TestAnyMonthKeepsTheBudget has loads that come and go.
func TestAnyMonthKeepsTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		longest := time.Duration(rapid.Int64Range(int64(20*time.Second), int64(10*time.Minute)).Draw(t, "max"))
		p := Pace{
			Flush: Money(rapid.Int64Range(1, 1_000_000).Draw(t, "flush")),
			Max:   longest,
			Base:  time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(longest)).Draw(t, "base")),
		}
		p.Budget = heartbeats(p)*Money(rapid.IntRange(100, 500).Draw(t, "percent of the heartbeats"))/100 + p.Flush
		seed := rapid.Uint64().Draw(t, "seed")
		burst := rapid.IntRange(1, 5000).Draw(t, "burst")
		random := rand.New(rand.NewPCG(seed, 0))
		m, left, scale := newMonth(p), 0, time.Duration(0)
		m.run(func() time.Duration {
			if left--; left <= 0 {
				left, scale = 1+random.IntN(burst), time.Duration(random.Int64N(int64(2*p.Max)))
			}
			return time.Duration(random.Int64N(int64(scale) + 1))
		})
		if limit := p.Budget + share(p.Budget, capSpan) + p.Flush; m.spent > limit {
			t.Fatalf("spent %s, the budget and what accrues at most are %s", m.spent, limit)
		}
		if m.least < p.Base || m.most > p.Max {
			t.Fatalf("intervals from %v to %v, want %v to %v", m.least, m.most, p.Base, p.Max)
		}
	})
}

// TestOtherSpendingIsPaidByFlushes: a store that also takes bases and listings must
// flush less, and the month keeps its budget where that is possible at all.
func TestOtherSpendingIsPaidByFlushes(t *testing.T) {
	p := Pace{Budget: 20 * Dollar, Flush: 5000, Base: 50 * time.Millisecond, Max: 3 * time.Second}
	m := newMonth(p)
	const others = 12 * Dollar // of this month
	flushes := 0
	m.run(func() time.Duration {
		flushes++
		if due := mulDiv(uint64(others), uint64(m.now.Sub(time.Unix(1_700_000_000, 0))), uint64(Month)); flushes%1000 == 0 {
			m.spend(due - (m.spent - Money(flushes)*p.Flush))
		}
		return 0
	})
	if limit := p.Budget + share(p.Budget, startSpan) + share(p.Budget, fullSpan); m.spent > limit {
		t.Fatalf("spent %s of %s", m.spent, limit)
	}
	if m.spent < p.Budget {
		t.Fatalf("spent %s only, of %s", m.spent, p.Budget)
	}
}

// TestLowLoadIsNotStretched: what costs no more than the budget goes at full speed.
func TestLowLoadIsNotStretched(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Pace{Flush: 5000, Base: time.Millisecond, Max: time.Duration(rapid.IntRange(20, 600).Draw(t, "max")) * time.Second}
		p.Budget = heartbeats(p) * Money(rapid.IntRange(110, 500).Draw(t, "percent of the heartbeats")) / 100
		// Bursts of a tenth of an hour's worth at once, and then silence until
		// they are paid.
		burst := max(int(share(p.Budget, time.Hour)/10/p.Flush), 1)
		pay := time.Duration(float64(burst) * float64(p.Flush) / float64(p.Budget-heartbeats(p)) * float64(Month))
		m, left, until := newMonth(p), burst, time.Time{}
		m.run(func() time.Duration {
			if m.now.Before(until) {
				return p.Max
			}
			if left--; left > 0 {
				return 0
			}
			left, until = burst, m.now.Add(pay)
			return p.Max
		})
		if m.stretched > 0 {
			t.Fatalf("stretched %d times, to %v", m.stretched, m.most)
		}
	})
}

// TestStretchIsSmooth walks the credit down: the interval grows in small steps, and
// its landmarks are those that the package promises.
func TestStretchIsSmooth(t *testing.T) {
	p := Pace{Budget: 5 * Dollar, Flush: 5000, Base: 50 * time.Millisecond, Max: 3 * time.Second}
	worth := func(d time.Duration) Money { return share(p.Budget, d) }
	steady := p.steady()
	if spends := mulDiv(uint64(p.Flush), uint64(Month), uint64(steady)); spends < p.Budget-Dollar/1000 || spends > p.Budget+Dollar/1000 {
		t.Fatalf("the steady interval %v spends %s", steady, spends)
	}
	for credit, want := range map[Money]time.Duration{
		worth(capSpan): p.Base, worth(fullSpan): p.Base, 0: steady, -worth(fullSpan): p.Max, -100 * Dollar: p.Max,
	} {
		if got := p.interval(credit); got < want-time.Microsecond || got > want+time.Microsecond {
			t.Errorf("with %s: %v, want %v", credit, got, want)
		}
	}
	last := p.interval(worth(fullSpan) + 1)
	for credit := worth(fullSpan); credit > -worth(fullSpan); credit -= p.Flush {
		next := p.interval(credit)
		if next < last || float64(next) > 1.01*float64(last) {
			t.Fatalf("at %s the interval goes from %v to %v", credit, last, next)
		}
		last = next
	}
}

func TestCreditIsCapped(t *testing.T) {
	start := time.Unix(0, 0)
	g := NewLimiter(Pace{Budget: 30 * Dollar, Flush: 1, Base: 1, Max: 2}, start)
	for _, c := range []struct {
		after time.Duration
		want  Money
	}{
		{0, Dollar / 4},
		{time.Hour, Dollar/4 + Dollar/24},
		{-time.Hour, Dollar/4 + Dollar/24},
		{6 * time.Hour, Dollar / 2},
		{30 * time.Hour, Dollar / 2},
		{5 * Month, Dollar / 2},
		{200 * 365 * 24 * time.Hour, Dollar / 2},
	} {
		if got := g.Credit(start.Add(c.after)); got < c.want-1 || got > c.want {
			t.Errorf("after %v: %s, want %s", c.after, got, c.want)
		}
	}
	g.Spend(math.MaxInt64)
	g.Spend(math.MaxInt64)
	if got := g.Credit(start); got != -math.MaxInt64 {
		t.Errorf("after all the money there is: %d", got)
	}
}

// TestNothingAccruesTwiceOrNever: many small spans are worth as much as a large one.
func TestNothingAccruesTwiceOrNever(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Unix(0, 0)
		budget := Money(rapid.Int64Range(1, 1e12).Draw(t, "budget"))
		g, whole := NewLimiter(Pace{Budget: budget}, start), NewLimiter(Pace{Budget: budget}, start)
		now := start
		for _, step := range rapid.SliceOfN(rapid.Int64Range(1, int64(time.Minute)), 1, 100).Draw(t, "steps") {
			now = now.Add(time.Duration(step))
			g.Credit(now)
		}
		if got, want := g.Credit(now), whole.Credit(now); got != want {
			t.Fatalf("%d in small steps, %d at once", got, want)
		}
	})
}

func TestWithoutBudget(t *testing.T) {
	g := NewLimiter(Pace{Flush: 5000, Base: time.Second, Max: 3 * time.Second}, time.Unix(0, 0))
	g.Spend(1e6 * Dollar)
	if got := g.Interval(time.Unix(1, 0)); got != time.Second {
		t.Fatalf("the interval is %v", got)
	}
	free := NewLimiter(Pace{Budget: Dollar, Base: time.Second, Max: 3 * time.Second}, time.Unix(0, 0))
	if got := free.Interval(time.Unix(1, 0)); got != time.Second {
		t.Fatalf("of a store without prices: %v", got)
	}
}

// TestPacerPaysForAll: what the meter counted before the pacer was made is paid, too,
// and nothing is paid twice.
func TestPacerPaysForAll(t *testing.T) {
	c := newClock()
	m := NewMeter(DefaultPrices("s3"), 5*Dollar, c.now)
	puts := int(share(5*Dollar, startSpan)/5000) + 1
	for range puts / 3 {
		observe(m, storage.OpPutIfMatch, metered.Committed, 1)
	}
	p := NewPacer(m, 5000, 50*time.Millisecond, 3*time.Second)
	if got := p.Interval(); got != 50*time.Millisecond {
		t.Fatalf("with two thirds of the credit: %v", got)
	}
	for range puts - puts/3 {
		observe(m, storage.OpPutIfAbsent, metered.Conflict, 1)
	}
	first := p.Interval()
	if steady := p.limiter.pace.steady(); first < steady-10*time.Millisecond || first > steady+10*time.Millisecond {
		t.Fatalf("without credit: %v, want about %v", first, steady)
	}
	if again := p.Interval(); again != first {
		t.Fatalf("paid twice: %v, then %v", first, again)
	}
	c.pass(12 * time.Hour)
	if got := p.Interval(); got != 50*time.Millisecond {
		t.Fatalf("after half a day's rest: %v", got)
	}
}
