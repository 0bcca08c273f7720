package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"osqueue/client"
	"osqueue/tests/cluster"
	"osqueue/tests/measure"
)

// comparePairs is the number of pairs of clusters for a row: two clusters of one program differ by up to 8 % for as long as
// they live. compareRounds is how often the clusters of a pair take turns.
const (
	comparePairs  = 5
	compareRounds = 6
)

// comparedRow is a load that is compared between two programs. turn lets it run for a time.
type comparedRow struct {
	name string
	turn func(br *brokers, d time.Duration) (rate float64, took measure.Samples, err error)
}

// comparedRows are the loads of the sections sequential, single, batch, lifecycle, drain and sdk, those of sdk over HTTP
// alone: before 0.1.0 the frames of streams may differ between two commits.
func comparedRows() []comparedRow {
	plain := func(name string, clients int, of func(host string) step) comparedRow {
		return comparedRow{name, func(br *brokers, d time.Duration) (float64, measure.Samples, error) {
			return repeatFor(br.leader.HTTP, clients, d, of(br.leader.HTTP))
		}}
	}
	batches := func(d dialect) func(host string) step {
		return func(host string) step { return d.enqueueBatch(host, jobsInBatch) }
	}
	rows := []comparedRow{
		plain("one client, legacy", 1, legacy.enqueueOne),
		plain("one client, strict", 1, strict.enqueueOne),
		plain("64 clients × 1, legacy", singleClients, legacy.enqueueOne),
		plain("64 clients × 1, strict", singleClients, strict.enqueueOne),
		plain("256 clients × 1, strict", manyClients, strict.enqueueOne),
		plain("4 clients × 100, legacy", batchClients, batches(legacy)),
		plain("4 clients × 100, strict", batchClients, batches(strict)),
		plain("16 clients × 100, strict", manyBatchClients, batches(strict)),
		plain("life, 4 clients × 100, legacy", batchClients, throughLife),
		plain("life, 64 clients × 1, strict", singleClients, throughLifeAlone),
		plain("life, 256 clients × 1, strict", manyClients, throughLifeAlone),
		{"drain, 64 clients × 1, strict", drainFor},
	}
	for _, one := range sdkVariants() {
		for _, callers := range one.callers {
			rows = append(rows, comparedRow{
				fmt.Sprintf("sdk, %d callers, %s", callers, one.name),
				func(br *brokers, d time.Duration) (float64, measure.Samples, error) {
					rate, err := sdkRate(client.Config{Servers: br.Servers(), Protocol: client.ProtocolHTTP}, callers, d, one.step)
					return rate * float64(one.jobs), nil, err
				},
			})
		}
	}
	return rows
}

// drainFor fills the queue, and then measures how fast it is drained.
func drainFor(br *brokers, d time.Duration) (float64, measure.Samples, error) {
	if err := fill(br.leader.HTTP, int(d.Seconds()*10_000)); err != nil {
		return 0, nil, err
	}
	began := time.Now()
	jobs, err := emptyQueue(br.leader.HTTP, singleClients)
	return float64(jobs) / time.Since(began).Seconds(), nil, err
}

// compare measures the program b.base and this tree's, each in a cluster of its own.
func (b *bench) compare(rows []comparedRow) error {
	base, err := filepath.Abs(b.base)
	if err != nil {
		return err
	}
	var ratios []float64
	for _, row := range rows {
		err := b.attempt(section{row.name, func(b *bench) error {
			ratio, err := b.compareRow(row, base)
			if err == nil {
				ratios = append(ratios, ratio)
			}
			return err
		}})
		if err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
	}
	b.report.add(figure{Section: "compare", Name: "geometric mean", Value: geometricMean(ratios), Unit: "× base"})
	return nil
}

// compareRow reports the rates of one row, and how they relate.
func (b *bench) compareRow(row comparedRow, base string) (float64, error) {
	var measured [2]series // base, and this tree
	var took [2]measure.Samples
	var ratios, costs []float64
	for pair := range b.pairs {
		now, before, err := b.comparePair(row, base, pair%2 == 0, &took)
		if err != nil {
			return 0, err
		}
		ratios = append(ratios, now.rateOf(before))
		costs = append(costs, now.nodesOf(before))
		for i, s := range []series{before, now} {
			measured[i].rates = append(measured[i].rates, s.rates...)
		}
	}
	ratio := geometricMean(ratios)
	b.report.add(figure{
		Section: "compare", Name: row.name, Value: ratio, Unit: "× base",
		Beside: fmt.Sprintf("%.2f to %.2f; %.0f and %.0f jobs/s; servers' CPU a job %.2f×", slices.Min(ratios), slices.Max(ratios),
			measured[0].rate(), measured[1].rate(), geometricMean(costs)),
	})
	for _, p := range []float64{50, 99} {
		if a := took[0].At(p); a > 0 {
			b.report.add(figure{
				Section: "compare", Name: fmt.Sprintf("%s, p%g", row.name, p), Value: float64(took[1].At(p)) / float64(a), Unit: "× base",
				Beside: fmt.Sprintf("%.2f and %.2f ms", measure.Milliseconds(a), measure.Milliseconds(took[1].At(p))),
			})
		}
	}
	return ratio, nil
}

// comparePair measures a row with one cluster of each program, which take turns of half a second or so: the speed of a
// machine drifts, but seldom within two turns. It adds the latencies to took.
func (b *bench) comparePair(row comparedRow, base string, baseFirst bool, took *[2]measure.Samples) (now, before series, err error) {
	programs := []cluster.Options{{Binary: base}, {}}
	first, second := 1, 0
	if baseFirst {
		first, second = 0, 1
	}
	err = b.withClusterOf(programs[first], func(one *brokers) error {
		return b.withClusterOf(programs[second], func(other *brokers) error {
			sides := make([]*brokers, len(programs))
			sides[first], sides[second] = one, other
			measured, err := b.inTurns(len(sides), func(i int) (rate float64, spent *cost, err error) {
				spent, err = costOf(sides[i].Cluster, sides[i].leader, func() (err error) {
					var own measure.Samples
					rate, own, err = row.turn(sides[i], b.turn())
					took[i] = append(took[i], own...)
					return err
				})
				return rate, spent, err
			})
			if err == nil {
				before, now = measured[0], measured[1]
			}
			return err
		})
	})
	return now, before, err
}

// geometricMean returns the geometric mean of positive values.
func geometricMean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += math.Log(v)
	}
	return math.Exp(sum / float64(len(values)))
}
