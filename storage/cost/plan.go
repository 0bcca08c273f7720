package cost

import (
	"fmt"
	"sort"
	"strings"
	"time"
)

// Plan has the known costs of a budget before the start.
type Plan struct {
	Budget        Money // of a month; 0: none
	Prices        Prices
	Heartbeat     time.Duration // longest time between two writes of the document
	BrokerTimeout time.Duration // must be longer than the heartbeat
	Inbox         time.Duration // time between two listings of an idle inbox; 0: no inbox
}

// Fixed returns the cost of a month without jobs: the heartbeats and the listings of the
// inbox.
func (p *Plan) Fixed() Money { return p.heartbeats(p.Heartbeat) + p.listings(p.Inbox) }

func (p *Plan) heartbeats(every time.Duration) Money {
	return p.Prices.Of(Counts{Replaces: perMonth(every)})
}

func (p *Plan) listings(every time.Duration) Money {
	return p.Prices.Of(Counts{Lists: perMonth(every)})
}

// perMonth returns how many times per month an action happens that repeats after every.
func perMonth(every time.Duration) uint64 {
	if every <= 0 {
		return 0
	}
	return uint64((Month + every - 1) / every)
}

// Check returns an error if the budget is less than the cost of an idle month. The error
// has the calculation and the values that would do.
func (p *Plan) Check() error {
	fixed := p.Fixed()
	if p.Budget <= 0 || fixed <= p.Budget {
		return nil
	}
	return fmt.Errorf("a bucket budget of %s a month is less than an idle month costs, %s: %s. Give %s",
		p.Budget, fixed, p.calculation(), strings.Join(p.ways(fixed), ", or "))
}

func (p *Plan) calculation() string {
	text := fmt.Sprintf("a heartbeat every %s makes %d writes in 30 days, at %s for 1000 %s",
		p.Heartbeat, perMonth(p.Heartbeat), p.Prices.Put, p.heartbeats(p.Heartbeat))
	if p.Inbox > 0 {
		text += fmt.Sprintf("; a listing of the inbox every %s makes %d listings, at %s for 1000 %s",
			p.Inbox, perMonth(p.Inbox), p.Prices.List, p.listings(p.Inbox))
	}
	return text
}

// ways returns flag changes. Each one alone makes the budget sufficient.
func (p *Plan) ways(fixed Money) []string {
	ways := []string{"--bucket-budget " + fixed.cents().flag()}
	if every, ok := fits(p.Budget-p.listings(p.Inbox), p.heartbeats); ok {
		ways = append(ways, p.heartbeatOf(every))
	}
	if every, ok := fits(p.Budget-p.heartbeats(p.Heartbeat), p.listings); ok && p.Inbox > 0 {
		ways = append(ways, "--inbox-idle-interval "+every.String())
	}
	return ways
}

func (p *Plan) heartbeatOf(every time.Duration) string {
	way := "--broker-heartbeat " + every.String()
	if 2*every > p.BrokerTimeout {
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
