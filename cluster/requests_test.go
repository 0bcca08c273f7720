package cluster

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest"
	"osqueue/storage/cost"
	"osqueue/storage/metered"
)

// TestRequestsOfAnIdleHour counts the requests to the bucket in an hour in which nothing
// changes, at the pace of S3, and compares their cost with the plan of a budget.
func TestRequestsOfAnIdleHour(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates 90 minutes")
	}
	for name, viewMax := range map[string]int{"small": 256 << 10, "large": 1} {
		t.Run(name, func(t *testing.T) {
			leading(t, viewMax, int64(viewMax-1), func(l *simLife, meter *cost.Meter) error {
				if err := enqueueLarge(l, 20, 100); err != nil {
					return err
				}
				time.Sleep(10 * time.Minute)
				if err := enqueueLarge(l, 5, 100); err != nil { // for a log after the checkpoint
					return err
				}
				time.Sleep(30 * time.Minute)
				before, start := meter.Report(), time.Now()
				time.Sleep(time.Hour)
				after := meter.Report()
				lists, gets := after.Counts.Lists-before.Counts.Lists, after.Counts.Gets-before.Counts.Gets
				spent, plan := after.Cost-before.Cost, planned(&l.cfg)
				month := spent * cost.Money(cost.Month/time.Since(start))
				t.Logf("%d writes, %d listings, %d reads; a month: %s, planned %s",
					after.Counts.Replaces-before.Counts.Replaces, lists, gets, month, plan)
				// The plan is that of a large queue, without the daily read of the archive.
				switch {
				case month > plan+plan/100:
					return fmt.Errorf("an idle month costs %s, planned are %s", month, plan)
				case name == "large" && month < plan-plan/50:
					return fmt.Errorf("an idle month costs %s, planned are %s: a request that is planned is not made", month, plan)
				case name == "small" && (lists > 88 || gets > 30):
					return fmt.Errorf("%d listings and %d reads in an idle hour", lists, gets)
				}
				return nil
			})
		})
	}
}

// TestRequestsOfABusyMinute checks that a small load costs one write a second.
func TestRequestsOfABusyMinute(t *testing.T) {
	leading(t, 1, 8<<20, func(l *simLife, meter *cost.Meter) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		time.Sleep(10 * time.Second)
		before, start := meter.Report(), time.Now()
		for i := 0; time.Since(start) < time.Minute; i++ {
			op := &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: fmt.Sprint("busy", i), Type: "t", Payload: make([]byte, 130)}}}
			if _, _, err := l.Propose(ctx, &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}}); err != nil {
				return err
			}
			time.Sleep(100 * time.Millisecond)
		}
		after := meter.Report()
		writes := after.Counts.Replaces + after.Counts.Creates - before.Counts.Replaces - before.Counts.Creates
		month := (after.Cost - before.Cost) * cost.Money(cost.Month/time.Minute)
		t.Logf("%d writes, %d listings, %d reads; a month: %s", writes, after.Counts.Lists-before.Counts.Lists, after.Counts.Gets-before.Counts.Gets, month)
		if writes > 62 || month > 16*cost.Dollar {
			return fmt.Errorf("%d writes in a minute, %s a month", writes, month)
		}
		return nil
	})
}

// planned returns the cost of an idle month at the prices of S3.
func planned(c *Config) cost.Money {
	p := cost.Plan{Prices: cost.DefaultPrices("s3"), Repeated: c.Repeated(0)}
	return p.Fixed()
}

// leading runs act with a cluster of one node that has the defaults of S3, in simulated
// time. The meter counts the requests of the node.
func leading(t *testing.T, viewMax int, checkpointMin int64, act func(*simLife, *cost.Meter) error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newSimWorld(1, storagetest.NewCounts())
		c := newSimCluster(w, "a", 1, w.record)
		meter := cost.NewMeter(cost.DefaultPrices("s3"), 0, nil)
		c.tune = func(cfg *Config) {
			d := DefaultConfig()
			cfg.Flush, cfg.Settings = d.Flush, fsm.DefaultSettings()
			cfg.CollectInterval, cfg.ArchiveCheck, cfg.ArchiveRead, cfg.StateCheck = d.CollectInterval, d.ArchiveCheck, d.ArchiveRead, d.StateCheck
			cfg.Flush.Window, cfg.MaxFlushLag, cfg.SnapshotThreshold = d.Flush.Window, d.MaxFlushLag, d.SnapshotThreshold
			cfg.Flush.Interval = time.Second
			cfg.Flush.Heartbeat, cfg.BrokerTimeout = 10*time.Second, 30*time.Second
			cfg.Flush.SaveRequests()
			cfg.Flush.ViewMax = viewMax
			if viewMax == 1 {
				cfg.Flush.TailMax, cfg.Flush.TailMin = 1<<10, 512 // so that there is a log to list
			}
			cfg.Flush.CheckpointMin = checkpointMin
			cfg.Bucket = metered.New(cfg.Bucket, meter.ObserveStorage)
		}
		c.startAll()
		err := simAwait(calmWait, c.whole)
		if err == nil {
			err = act(c.active(), meter)
		}
		c.end()
		if err != nil {
			t.Errorf("%v; %v", err, w.failed())
		}
	})
}
