package serve

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// machineSource is a node without a cluster.
type machineSource struct {
	m     *fsm.Machine
	index uint64
}

func newMachineSource() *machineSource {
	s := &machineSource{m: fsm.New()}
	return s
}

func (s *machineSource) View() *fsm.View    { return s.m.View() }
func (s *machineSource) ClaimsWaiting() int { return 7 }

func (s *machineSource) apply(mut *fsmpb.Mutation) {
	s.index++
	s.m.Apply(s.index, 1, &fsmpb.Batch{NowMs: 1000, Mutations: []*fsmpb.Mutation{mut}})
}

func (s *machineSource) AllTypeStats() map[string]fsm.TypeStats {
	out := make(map[string]fsm.TypeStats)
	s.m.Types(func(name string, st fsm.TypeStats) bool { out[name] = st; return true })
	return out
}

func (s *machineSource) enqueue(types ...string) {
	op := &fsmpb.Enqueue{}
	for i, name := range types {
		op.Jobs = append(op.Jobs, &fsmpb.NewJob{Id: fmt.Sprintf("%d-%d", s.index, i), Type: name})
	}
	s.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}})
}

// The metrics of types follow the conventions of Prometheus.
func TestTypeMetricsConform(t *testing.T) {
	s := newMachineSource()
	s.enqueue("", "mail", "other", "~", "wei\xffrd", strings.Repeat("x", 500), "<b>&\"")
	problems, err := testutil.CollectAndLint(typeCollector(s))
	check(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(typeCollector(s))
	if _, err := r.Gather(); err != nil {
		t.Errorf("two series are alike, or one is not valid: %v", err)
	}
}

// The number of series does not grow with the number of types.
func TestTypeMetricsAreBounded(t *testing.T) {
	s := newMachineSource()
	for i := range 50 {
		types := make([]string, 200)
		for k := range types {
			types[k] = fmt.Sprintf("t%d-%d", i, k)
		}
		s.enqueue(types...)
	}
	const metrics = 8 + 1 + 9 + 3 // of one type
	if n, most := testutil.CollectAndCount(typeCollector(s)), (fsm.FiguresMax+1)*metrics+2; n > most {
		t.Errorf("10000 types have %d series, more than %d", n, most)
	}
	var jobs int
	for _, f := range typeFigures(s.View(), s.AllTypeStats(), 5000) {
		jobs += f.jobs.Of(fsm.Unclaimed)
		if f.name == fsm.FigureOther && (f.Enqueued != 9900 || f.oldestMs != 4000) {
			t.Errorf("other has %+v", *f)
		}
	}
	if jobs != 10_000 {
		t.Errorf("the types have %d jobs in all", jobs)
	}
}

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
	r.MustRegister(workerCollector(s.View))
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
	if problems, err := testutil.CollectAndLint(workerCollector(s.View)); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
