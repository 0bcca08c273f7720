package fsm_test

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// answer and state are what is seen of a machine, in a form that compares by
// value.
type answer struct {
	code  fsm.Code
	jobs  []*fsm.Job
	codes []fsm.Code
}

func answers(results []fsm.Result) []answer {
	out := make([]answer, len(results))
	for i, r := range results {
		out[i] = answer{r.Code, bareJobs(r.Jobs), append([]fsm.Code{}, r.Codes...)}
	}
	return out
}

func bareJobs(jobs []*fsm.Job) []*fsm.Job {
	out := make([]*fsm.Job, len(jobs))
	for i, j := range jobs {
		if j != nil {
			bare := j.Bare()
			out[i] = &bare
		}
	}
	return out
}

func eventsOf(m *fsm.Machine) []event {
	var out []event
	for _, e := range m.Events() {
		out = append(out, event{e.Job.ID, e.From, e.Job.Status, e.Removed})
	}
	return out
}

// log is where the next entry stands.
type log struct {
	index uint64
	term  uint64
}

// next is the next index; now and then there is a new term.
func (l *log) next(t *rapid.T) {
	l.index++
	if roll(t, 20, "new term") == 19 {
		l.term++
	}
}

func entry(t rapid.TB, b *fsmpb.Batch) []byte {
	data, err := fsm.EncodeEntry(b)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func decode(t rapid.TB, data []byte) *fsmpb.Batch {
	b, err := fsm.DecodeEntry(bytes.Clone(data))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestMachineAgreesWithModel runs random logs through the machine and through
// the naive model, and compares everything that can be seen after each entry.
func TestMachineAgreesWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, naive := fsm.New(), newModel()
		w, l := &workload{now: 1_000_000}, &log{term: 1}
		apply := func(t *rapid.T, b *fsmpb.Batch) {
			l.next(t)
			data := entry(t, b)
			got := m.Apply(l.index, l.term, decode(t, data))
			want := naive.apply(fsm.LSN{Term: l.term, Index: l.index}, decode(t, data))
			compareAnswers(t, b, answers(got), answers(want))
			if got, want := eventsOf(m), naive.events; !slices.Equal(got, want) {
				t.Fatalf("events %v, want %v", got, want)
			}
			w.learn(b, got)
			checkAgainst(t, m, naive)
		}
		t.Repeat(map[string]func(*rapid.T){
			"entry":    func(t *rapid.T) { apply(t, w.batch(t)) },
			"entry2":   func(t *rapid.T) { apply(t, w.batch(t)) },
			"takeover": func(t *rapid.T) { apply(t, w.takeover(t)) },
			"deadline": func(t *rapid.T) { // what an idle leader does
				at, ok := m.NextDeadline()
				if !ok || at > sum(m.Meta().Now, 1000) {
					return
				}
				w.now = max(w.now, at)
				apply(t, &fsmpb.Batch{NowMs: w.now})
				if next, ok := m.NextDeadline(); ok && next <= m.Meta().Now && next < math.MaxInt64 {
					t.Fatalf("at %d the deadline %d is not past", m.Meta().Now, next)
				}
			},
		})
	})
}

func compareAnswers(t *rapid.T, b *fsmpb.Batch, got, want []answer) {
	for i := range max(len(got), len(want)) {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("mutation %d (%v):\n got %v\nwant %v", i, b.Mutations[i], show(got[i]), show(want[i]))
		}
	}
}

func show(a answer) string {
	s := fmt.Sprintf("%v %v", a.code, a.codes)
	for _, j := range a.jobs {
		s += fmt.Sprintf("\n\t%+v", j)
	}
	return s
}

func checkAgainst(t *rapid.T, m *fsm.Machine, naive *model) {
	if err := m.CheckIndexes(); err != nil {
		t.Fatal(err)
	}
	if got, want := m.Meta(), naive.meta; got != want {
		t.Fatalf("scalars\n got %+v\nwant %+v", got, want)
	}
	checkJobs(t, m, naive)
	checkOthers(t, m, naive)
	checkRemembers(t, m, naive)
	checkDeadline(t, m, naive)
	for _, types := range [][]string{nil, {"a"}, {""}, {"", "b"}, {"none"}} {
		if got, want := m.Ready(types), naive.best(types) != nil; got != want {
			t.Fatalf("ready for %q: %v, want %v", types, got, want)
		}
	}
}

// checkJobs compares the jobs as every way to read them shows them.
func checkJobs(t *rapid.T, m *fsm.Machine, naive *model) {
	v := m.View()
	var counts fsm.Counts
	perType := map[string]fsm.Counts{}
	for _, want := range naive.jobs {
		counts[want.Status]++
		c := perType[want.Type]
		c[want.Status]++
		perType[want.Type] = c
		if got := m.Job(want.ID); got == nil || !reflect.DeepEqual(got.Bare(), *want) {
			t.Fatalf("job %s\n got %+v\nwant %+v", want.ID, got, want)
		}
	}
	if m.Counts() != counts || v.Counts() != counts {
		t.Fatalf("counts %v, in the view %v, want %v", m.Counts(), v.Counts(), counts)
	}
	gotTypes := map[string]fsm.Counts{}
	m.TypeCounts(func(name string, c fsm.Counts) bool { gotTypes[name] = c; return true })
	if !maps.Equal(gotTypes, perType) {
		t.Fatalf("counts by type %v, want %v", gotTypes, perType)
	}
	statuses := rapid.SliceOf(rapid.SampledFrom([]fsm.Status{1, 2, 3, 4, 5, 6})).Draw(t, "statuses")
	after := rapid.Uint64Range(0, 40).Draw(t, "after")
	got := listed(func(fn func(*fsm.Job) bool) { v.Merged(statuses, after, fn) })
	if want := naive.list(statuses, after); !slices.Equal(got, want) {
		t.Fatalf("%v after %d: %v, want %v", statuses, after, got, want)
	}
	for s := fsm.Scheduled; s <= fsm.Cancelled; s++ {
		got := listed(func(fn func(*fsm.Job) bool) { v.Jobs(s, after, fn) })
		if want := naive.list([]fsm.Status{s}, after); !slices.Equal(got, want) {
			t.Fatalf("%v after %d: %v, want %v", s, after, got, want)
		}
	}
}

func listed(scan func(func(*fsm.Job) bool)) (ids []string) {
	scan(func(j *fsm.Job) bool { ids = append(ids, j.ID); return true })
	return ids
}

func (m *model) list(statuses []fsm.Status, after uint64) (ids []string) {
	for _, j := range m.jobs {
		if j.Seq > after && slices.Contains(statuses, j.Status) {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

func checkOthers(t *rapid.T, m *fsm.Machine, naive *model) {
	v := m.View()
	var workers []*fsm.Worker
	v.Workers(func(w *fsm.Worker) bool { bare := w.Bare(); workers = append(workers, &bare); return true })
	if !reflect.DeepEqual(workers, append([]*fsm.Worker(nil), naive.workers...)) || v.WorkerCount() != len(workers) || m.WorkerCount() != len(workers) {
		t.Fatalf("workers %+v (%d), want %+v", workers, v.WorkerCount(), naive.workers)
	}
	var claims []*fsm.ClaimRecord
	v.Claims(func(r *fsm.ClaimRecord) bool { claims = append(claims, r); return true })
	if !reflect.DeepEqual(claims, append([]*fsm.ClaimRecord(nil), naive.claims...)) {
		t.Fatalf("claims %+v, want %+v", claims, naive.claims)
	}
}

// checkRemembers asks for some claim, made or not.
func checkRemembers(t *rapid.T, m *fsm.Machine, naive *model) {
	worker, request := pick(t, workers, "worker"), fmt.Sprint("r", roll(t, 25, "request"))
	known := slices.ContainsFunc(naive.claims, func(r *fsm.ClaimRecord) bool {
		return r.Worker == worker && r.RequestID == request
	})
	if got := m.Remembers(worker, request); got != known {
		t.Fatalf("claim %s of worker %q: remembered %v, want %v", request, worker, got, known)
	}
}

// checkDeadline checks that an idle leader sleeps neither too long nor for
// ever, and gets on: a deadline that passed is gone.
func checkDeadline(t *rapid.T, m *fsm.Machine, naive *model) {
	d, exact := naive.next()
	for _, j := range naive.jobs {
		end := sum(j.FinishedAt, naive.meta.Settings.RetainCompletedMs, 1)
		if j.Status == fsm.Completed && (!exact || end < d.at) {
			d.at, exact = end, true
		}
	}
	at, ok := m.NextDeadline()
	if ok != exact || ok && at > d.at {
		t.Fatalf("next deadline %d (%v), must not be after %d (%v)", at, ok, d.at, exact)
	}
}
