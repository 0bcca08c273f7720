package serve

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// The number of series of workers is bounded, and together they have all running jobs.
func TestWorkerMetricsAreBounded(t *testing.T) {
	s := newMachineSource()
	types := make([]string, 300)
	s.enqueue(types...)
	claim := func(name string, jobs uint32) {
		s.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{Worker: name, Max: jobs}}})
	}
	for i := range 250 {
		name := fmt.Sprintf("w%03d", i)
		s.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterWorker{RegisterWorker: &fsmpb.RegisterWorker{Name: name, Capacity: uint32(i)}}})
		claim(name, 1)
	}
	s.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_SetQuiet{SetQuiet: &fsmpb.SetQuiet{Name: "w007", Quiet: true}}})
	s.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterWorker{RegisterWorker: &fsmpb.RegisterWorker{Name: fsm.FigureOther}}})
	claim(fsm.FigureOther, 5)
	claim("not registered", 7)
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(newWorkerCollector(s.View))
	families, err := r.Gather()
	if err != nil || len(families) != 3 {
		t.Fatalf("%v, %v", families, err)
	}
	values := func(i int) map[string]float64 {
		got := make(map[string]float64)
		for _, m := range families[i].Metric {
			got[m.Label[0].GetValue()] = m.Gauge.GetValue()
		}
		return got
	}
	if got := values(0); len(got) != workersShown-1 || got["w042"] != 42 {
		t.Errorf("capacity: %d series, %v", len(got), got)
	}
	if got := values(1); len(got) != workersShown || got["w007"] != 1 || got["w008"] != 0 {
		t.Errorf("quiet: %d series, %v", len(got), got)
	}
	got := values(2)
	if len(got) != workersShown+1 || got["w000"] != 1 || got[fsm.FigureOther] != 150+5+7 {
		t.Errorf("%d series, %v", len(got), got)
	}
	if problems, err := testutil.CollectAndLint(newWorkerCollector(s.View)); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
