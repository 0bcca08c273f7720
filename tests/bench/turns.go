package main

import (
	"slices"
	"time"
)

// roundsDefault is how often the sides of a comparison take turns: the speed of the machine
// drifts. It is a multiple of the number of sides, so that each side is first equally often.
const roundsDefault = 12

// turn is how long one measurement of a comparison takes.
func (b *bench) turn() time.Duration { return b.duration / time.Duration(b.rounds) }

// series are the measurements of one side of a comparison, one a round.
type series struct {
	rates []float64
	costs []cost // none on systems other than Linux
}

// inTurns measures the sides of a comparison in turns.
func (b *bench) inTurns(sides int, measure func(side int) (rate float64, spent *cost, err error)) ([]series, error) {
	all := make([]series, sides)
	for round := range b.rounds {
		for i := range sides {
			side := (i + round) % sides
			rate, spent, err := measure(side)
			if err != nil {
				return nil, err
			}
			s := &all[side]
			s.rates = append(s.rates, rate)
			if spent != nil {
				s.costs = append(s.costs, *spent)
			}
		}
	}
	return all, nil
}

// rate returns the average rate.
func (s series) rate() float64 {
	sum := 0.0
	for _, rate := range s.rates {
		sum += rate
	}
	return sum / float64(len(s.rates))
}

// cost returns the average cost.
func (s series) cost() *cost {
	var sum cost
	for _, one := range s.costs {
		n := float64(len(s.costs))
		sum.Leader += one.Leader / n
		sum.Followers += one.Followers / n
		sum.Clients += one.Clients / n
		sum.Entries += one.Entries / n
	}
	return &sum
}

// meanOf returns the mean of two sides in each round.
func meanOf(a, b series) series {
	var mean series
	for i, rate := range a.rates {
		mean.rates = append(mean.rates, (rate+b.rates[i])/2)
	}
	for i := range a.costs {
		mean.costs = append(mean.costs, *series{costs: []cost{a.costs[i], b.costs[i]}}.cost())
	}
	return mean
}

// rateOf returns the median of the rates as multiples of those of another side in the same
// round.
func (s series) rateOf(other series) float64 {
	return medianOf(len(s.rates), func(i int) float64 { return s.rates[i] / other.rates[i] })
}

// nodesOf is rateOf for the processor time of all nodes for one job.
func (s series) nodesOf(other series) float64 {
	return medianOf(len(s.costs), func(i int) float64 { return s.nodes(i) / other.nodes(i) })
}

// nodes returns the processor time of all nodes for one job in round i, in seconds.
func (s series) nodes(i int) float64 { return (s.costs[i].Leader + s.costs[i].Followers) / s.rates[i] }

// medianOf returns the median of n values, or 0 if there are none.
func medianOf(n int, value func(i int) float64) float64 {
	if n == 0 {
		return 0
	}
	all := make([]float64, n)
	for i := range all {
		all[i] = value(i)
	}
	slices.Sort(all)
	return (all[(n-1)/2] + all[n/2]) / 2
}
