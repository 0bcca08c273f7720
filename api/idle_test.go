package api

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// An idle worker that registers every 10 s and has eight claims that wait costs at
// most two log entries a minute, and stays registered.
func TestIdleWorkersWriteNextToNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		settings := fsm.DefaultSettings()
		settings.WorkerTimeoutMs = 60_000
		if _, _, err := g.node.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
			Node: "n1", Address: "10.0.0.1:8080", Epoch: 2, Cluster: "c", Lineage: "l", Settings: settings.ToPB(),
		}}}); err != nil {
			t.Fatal(err)
		}
		end := time.Now().Add(10 * time.Minute)
		var wg sync.WaitGroup
		clock := func() {
			for time.Now().Before(end) {
				time.Sleep(time.Second)
				g.node.tick(time.Second)
			}
		}
		wg.Go(clock)
		const workers = 20
		for i := range workers {
			name := fmt.Sprintf("w%d", i)
			g.do(http.MethodPost, "/v1/workers", fmt.Sprintf(`{"name":%q,"types":["t"]}`, name))
			for range 8 {
				wg.Go(func() {
					for time.Now().Before(end) {
						g.do(http.MethodPost, "/v1/jobs/claim", fmt.Sprintf(`{"workerId":%q,"types":["t"],"waitMs":2000}`, name))
					}
				})
			}
			wg.Go(func() {
				for time.Now().Before(end) {
					time.Sleep(10 * time.Second)
					g.do(http.MethodPost, "/v1/workers", fmt.Sprintf(`{"name":%q,"types":["t"]}`, name))
				}
			})
		}
		before := g.node.written()
		wg.Wait()
		if n := g.node.written() - before; n > workers*2*10+workers || n < workers*5 {
			t.Errorf("%d idle workers wrote %d times in 10 minutes", workers, n)
		}
		if n := g.node.View().WorkerCount(); n != workers {
			t.Errorf("%d workers are registered, want %d", n, workers)
		}
	})
}
