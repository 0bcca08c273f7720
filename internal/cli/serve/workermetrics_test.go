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
		s.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterWorker{RegisterWorker: &fsmpb.RegisterWorker{Name: name}}})
		claim(name, 1)
	}
	s.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterWorker{RegisterWorker: &fsmpb.RegisterWorker{Name: fsm.FigureOther}}})
	claim(fsm.FigureOther, 5)
	claim("not registered", 7)
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(newWorkerCollector(s.View))
	families, err := r.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%v, %v", families, err)
	}
	got := make(map[string]float64)
	for _, m := range families[0].Metric {
		got[m.Label[0].GetValue()] = m.Gauge.GetValue()
	}
	if len(got) != workersShown+1 || got["w000"] != 1 || got[fsm.FigureOther] != 150+5+7 {
		t.Errorf("%d series, %v", len(got), got)
	}
	if problems, err := testutil.CollectAndLint(newWorkerCollector(s.View)); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
