package cost

import (
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Plan has the known costs of a budget before the start.
type Plan struct {
	Budget        Money // of a month; 0: none
	Prices        Prices
	BrokerTimeout time.Duration // must be longer than the time between two heartbeats
	Repeated      []Repeated    // at the slowest pace of the leader
}

// Repeated describes requests that a leader repeats at a regular interval.
type Repeated struct {
	Name   string        // for example "a heartbeat"
	Every  time.Duration // 0: never
	Counts Counts        // requests each time
	Flag   string        // sets Every; "": none does
}

// HeartbeatFlag is the flag of the heartbeats, which the broker timeout must follow.
const HeartbeatFlag = "--broker-heartbeat"

// Fixed returns the cost of a month at the slowest pace.
func (p *Plan) Fixed() (sum Money) {
	for i := range p.Repeated {
		sum += p.cost(&p.Repeated[i], p.Repeated[i].Every)
	}
	return sum
}

// cost returns the cost of a month in which r happens after every.
func (p *Plan) cost(r *Repeated, every time.Duration) Money {
	return p.Prices.Of(r.Counts.times(perMonth(every)))
}

// perMonth returns how many times per month an action happens that repeats after every.
func perMonth(every time.Duration) uint64 {
	if every <= 0 {
		return 0
	}
	return uint64((Month + every - 1) / every)
}

// Check returns an error if the budget is less than Fixed. The error has the calculation
// and the values that would do.
func (p *Plan) Check() error {
	fixed := p.Fixed()
	if p.Budget <= 0 || fixed <= p.Budget {
		return nil
	}
	return fmt.Errorf("a bucket budget of %s a month is too small: at the slowest pace the bucket costs %s: %s. Give %s",
		p.Budget, fixed, p.calculation(), strings.Join(p.ways(fixed), ", or "))
}

func (p *Plan) calculation() string {
	var parts []string
	for i := range p.Repeated {
		r := &p.Repeated[i]
		if c := p.cost(r, r.Every); c > 0 {
			all := r.Counts.times(perMonth(r.Every))
			parts = append(parts, fmt.Sprintf("%s every %s makes %d requests in 30 days, %s", r.Name, r.Every.Round(time.Millisecond), all.requests(), c))
		}
	}
	return strings.Join(parts, "; ")
}

// ways returns flag changes. Each one alone makes the budget sufficient.
func (p *Plan) ways(fixed Money) []string {
	ways := []string{"--bucket-budget " + fixed.cents().flag()}
	for i := range p.Repeated {
		r := &p.Repeated[i]
		if r.Flag == "" || r.Every <= 0 {
			continue
		}
		every, ok := fits(p.Budget-(fixed-p.cost(r, r.Every)), func(every time.Duration) Money { return p.cost(r, every) })
		if ok {
			ways = append(ways, p.way(r.Flag, every))
		}
	}
	return ways
}

func (p *Plan) way(flag string, every time.Duration) string {
	way := flag + " " + every.String()
	if flag == HeartbeatFlag && 2*every > p.BrokerTimeout {
		way += fmt.Sprintf(" with --broker-timeout %s", 3*every)
	}
	return way
}

// fits returns the shortest interval, in tenths of a second up to a day, whose cost is at
// most most.
func fits(most Money, costs func(every time.Duration) Money) (time.Duration, bool) {
	const step, steps = 100 * time.Millisecond, 24 * 60 * 60 * 10
	every := func(i int) time.Duration { return step * time.Duration(i+1) }
	i := sort.Search(steps, func(i int) bool { return costs(every(i)) <= most })
	return every(i), i < steps
}

// burstSpan is the credit of a new process, and the most that accrues, in time of the budget.
const burstSpan = 6 * time.Hour

// Pacer pays for the requests that a Meter has counted, and gives a flusher its interval, so that
// the budget lasts. It is safe for concurrent use.
type Pacer struct {
	meter   *Meter
	longest time.Duration
	credit  *rate.Limiter // a token is a nano-dollar; fewer than none is a debt

	mu   sync.Mutex
	paid Money
}

// NewPacer returns a Pacer that pays for every request that the meter has counted or will
// count from the meter's budget, which must be positive. No interval is above longest, which is
// that of the heartbeat: a budget never delays a heartbeat.
func NewPacer(m *Meter, longest time.Duration) *Pacer {
	perSecond := rate.Limit(float64(m.budget) / Month.Seconds())
	burst := mulDiv(uint64(m.budget), uint64(burstSpan), uint64(Month))
	return &Pacer{meter: m, longest: longest, credit: rate.NewLimiter(perSecond, max(int(burst), 1))}
}

// Interval returns the least time from the start of one flush to the start of the next: least while
// there is credit, and otherwise at least the time in which the debt is paid.
func (p *Pacer) Interval(least time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, spent := p.meter.now(), p.meter.Spent()
	for p.paid < spent { // a reservation takes at most a burst
		n := min(spent-p.paid, Money(p.credit.Burst()))
		p.credit.ReserveN(now, int(n))
		p.paid += n
	}
	debt := -p.credit.TokensAt(now) / float64(p.credit.Limit()) // s
	return time.Duration(min(max(debt*float64(time.Second), float64(least)), float64(p.longest)))
}
