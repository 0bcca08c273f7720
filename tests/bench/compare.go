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

// compareRounds is how often the two programs take turns in a row. The interval that is reported is that between the
// sixth lowest and the sixth highest of the ratios: the median of all lies in it with 96 %.
const (
	compareRounds = 20
	compareRank   = 6
)

// comparedRow is a load that is compared between two programs. turn lets it run for a time.
type comparedRow struct {
	name string
	turn func(br *brokers, d time.Duration) (rate float64, took measure.Samples, err error)
}

// comparedRows are the loads of the sections sequential, single, batch, lifecycle, drain and sdk.
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
			for _, p := range []client.Protocol{client.ProtocolStream, client.ProtocolHTTP} {
				rows = append(rows, comparedRow{
					fmt.Sprintf("sdk, %d callers, %s, %s", callers, one.name, p),
					func(br *brokers, d time.Duration) (float64, measure.Samples, error) {
						rate, err := sdkRate(client.Config{Servers: br.Servers(), Protocol: p}, callers, d, one.step)
						return rate * float64(one.jobs), nil, err
					},
				})
			}
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

// compare measures the program b.base and this tree's, each in a cluster that lives as long as a row. They take turns of
// half a second or so: the speed of a machine drifts, but seldom within two turns.
func (b *bench) compare(rows []comparedRow) error {
	base, err := filepath.Abs(b.base)
	if err != nil {
		return err
	}
	var medians []float64
	for _, row := range rows {
		err := b.withCluster(func(now *brokers) error {
			return b.withClusterOf(cluster.Options{Binary: base}, func(before *brokers) error {
				median, err := b.compareRow(row, before, now)
				medians = append(medians, median)
				return err
			})
		})
		if err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
	}
	sum := 0.0
	for _, m := range medians {
		sum += math.Log(m)
	}
	b.report.add(figure{Section: "compare", Name: "geometric mean", Value: math.Exp(sum / float64(len(medians))), Unit: "× base"})
	return nil
}

// compareRow reports the rates of one row, and how they relate.
func (b *bench) compareRow(row comparedRow, before, now *brokers) (median float64, err error) {
	sides := []*brokers{before, now}
	var took [2]measure.Samples
	measured, err := b.inTurns(len(sides), func(i int) (rate float64, spent *cost, err error) {
		spent, err = costOf(sides[i].Cluster, sides[i].leader, func() (err error) {
			var own measure.Samples
			rate, own, err = row.turn(sides[i], b.turn())
			took[i] = append(took[i], own...)
			return err
		})
		return rate, spent, err
	})
	if err != nil {
		return 0, err
	}
	ratios := make([]float64, b.rounds)
	for i := range ratios {
		ratios[i] = measured[1].rates[i] / measured[0].rates[i]
	}
	slices.Sort(ratios)
	rank := min(compareRank, (len(ratios)+1)/2)
	median = measured[1].rateOf(measured[0])
	b.report.add(figure{
		Section: "compare", Name: row.name, Value: median, Unit: "× base",
		Beside: fmt.Sprintf("%.2f to %.2f; %.0f and %.0f jobs/s; servers' CPU a job %.2f×", ratios[rank-1], ratios[len(ratios)-rank],
			measured[0].rate(), measured[1].rate(), measured[1].nodesOf(measured[0])),
	})
	for _, p := range []float64{50, 99} {
		if a := took[0].At(p); a > 0 {
			b.report.add(figure{
				Section: "compare", Name: fmt.Sprintf("%s, p%g", row.name, p), Value: float64(took[1].At(p)) / float64(a), Unit: "× base",
				Beside: fmt.Sprintf("%.2f and %.2f ms", measure.Milliseconds(a), measure.Milliseconds(took[1].At(p))),
			})
		}
	}
	return median, nil
}
