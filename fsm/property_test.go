package fsm_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// answer is a result in a form that compares by value.
type answer struct {
	code  fsm.Code
	jobs  []*fsm.Job
	codes []fsm.Code
	count uint64
	next  fsm.Place
	lsn   fsm.LSN
}

func answers(results []fsm.Result) []answer {
	out := make([]answer, len(results))
	for i, r := range results {
		out[i] = answer{r.Code, bareJobs(r.Jobs), append([]fsm.Code{}, r.Codes...), r.Count, r.Next, r.LSN}
	}
	return out
}

func bareJobs(jobs []*fsm.Job) []*fsm.Job {
	out := make([]*fsm.Job, len(jobs))
	for i, j := range jobs {
		if j != nil {
			out[i] = bareJob(j)
		}
	}
	return out
}

// bareJob returns a copy of j without derived fields. Empty values are nil in it, so that
// it compares by value.
func bareJob(j *fsm.Job) *fsm.Job {
	bare := fsm.Bare(j)
	o, full := *j.Options(), j.Details()
	o.Tags, o.After = someOrNil(o.Tags), someOrNil(withoutRepetitions(o.After))
	o.Headers, o.Limits = someOrNil(o.Headers), someOrNil(o.Limits)
	o.AfterNames, o.AfterBatches = someOrNil(o.AfterNames), someOrNil(o.AfterBatches)
	d := fsm.Details{
		History: someOrNil(full.History), Progress: full.Progress, ProgressAt: full.ProgressAt,
		Waits: someOrNil(full.Waits), CancelAt: full.CancelAt, TimeoutMs: full.TimeoutMs, Log: full.Log,
		Owner: full.Owner, Revision: full.Revision, InLine: full.InLine, Awaits: full.Awaits,
	}
	for _, s := range full.Steps {
		d.Steps = append(d.Steps, &fsmpb.Step{Name: s.Name, Value: someOrNil(s.Value)})
	}
	for _, s := range full.Signals {
		d.Signals = append(d.Signals, &fsmpb.Signal{Name: s.Name, Value: someOrNil(s.Value), Id: s.Id, AtMs: s.AtMs})
	}
	for _, l := range full.Links {
		d.Links = append(d.Links, &fsmpb.SignalLink{Signal: l.Signal, Hash: l.Hash, UntilMs: l.UntilMs})
	}
	bare.Opt, bare.Det = &o, &d
	if reflect.ValueOf(o).IsZero() {
		bare.Opt = nil
	}
	if reflect.ValueOf(d).IsZero() {
		bare.Det = nil
	}
	return &bare
}

func someOrNil[T any](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	return list
}

func eventsOf(m *fsm.Machine) []event {
	var out []event
	for _, e := range m.Events() {
		seen := event{kind: e.Kind, from: e.From, removed: e.Removed, name: e.Name, text: e.Text}
		if e.Job != nil {
			seen.id, seen.to = e.Job.ID, e.Job.Status
		}
		out = append(out, seen)
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
	if once(t, 20, "new term") {
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

// pair is a machine and the model, which live the same life.
type pair struct {
	machine *fsm.Machine
	naive   *model
	w       *workload
	log     log
}

func newPair() *pair {
	return &pair{machine: fsm.New(), naive: newModel(), w: &workload{now: 1_000_000}, log: log{term: 1}}
}

// apply runs an entry through both and compares all that can be seen.
func (p *pair) apply(t *rapid.T, b *fsmpb.Batch) {
	p.log.next(t)
	t.Logf("entry %v", b) // printed for the shortest log that fails
	data := entry(t, b)
	got := p.machine.Apply(p.log.index, p.log.term, decode(t, data))
	want := p.naive.apply(fsm.LSN{Term: p.log.term, Index: p.log.index}, decode(t, data))
	compareAnswers(t, b, answers(got), answers(want))
	if got, want := eventsOf(p.machine), p.naive.events; !slices.Equal(got, want) {
		t.Fatalf("events\n got %+v\nwant %+v", got, want)
	}
	p.w.learn(b, got)
	p.check(t)
}

// restart sends the machine through a snapshot: what it does from there on must
// still be what the model does.
func (p *pair) restart(t *rapid.T) {
	back := copyOf(t, p.machine)
	if back.View().Hash() != p.machine.View().Hash() {
		t.Fatal("a restored machine is in another state")
	}
	p.machine = back
	p.check(t)
}

// idle acts as a leader without requests: at the deadline it proposes the work that fell
// due.
func (p *pair) idle(t *rapid.T) {
	at, ok := p.machine.NextDeadline(nil)
	if !ok || at > sum(p.machine.Now(), 1000) {
		return
	}
	p.w.now = max(p.w.now, at)
	now := max(p.w.now, p.machine.Now())
	b := &fsmpb.Batch{NowMs: p.w.now, Random: rapid.Uint64().Draw(t, "random")}
	for _, c := range p.naive.crons {
		if c.NextAtMs != 0 && c.NextAtMs <= now {
			b.Mutations = append(b.Mutations, p.w.fire(t, c.Name, c.NextAtMs))
		}
	}
	p.apply(t, b)
	if d, ok := p.naive.wakes(); ok && d <= now {
		return // a schedule that is due again, or jobs that still wait to hear of an end
	}
	if next, ok := p.machine.NextDeadline(nil); ok && next <= now && next < math.MaxInt64 {
		t.Fatalf("at %d the deadline %d is not past", now, next)
	}
}

// TestMachineAgreesWithModel runs random logs through the machine and through
// the naive model, and compares everything that can be seen after each entry.
func TestMachineAgreesWithModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newPair()
		t.Repeat(map[string]func(*rapid.T){
			"entry":    func(t *rapid.T) { p.apply(t, p.w.batch(t)) },
			"entry2":   func(t *rapid.T) { p.apply(t, p.w.batch(t)) },
			"entry3":   func(t *rapid.T) { p.apply(t, p.w.batch(t)) },
			"takeover": func(t *rapid.T) { p.apply(t, p.w.takeover(t)) },
			"deadline": p.idle,
			"restart":  p.restart,
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
	s := fmt.Sprintf("%v %v count %d next %v lsn %v", a.code, a.codes, a.count, a.next, a.lsn)
	for _, j := range a.jobs {
		s += "\n\t" + showJob(j)
	}
	return s
}

// showJob prints what a job has.
func showJob(j *fsm.Job) string {
	if j == nil {
		return "none"
	}
	plain := bareJob(j)
	plain.Opt, plain.Exec, plain.Det = nil, nil, nil
	return showMembers(*plain) + showMembers(*j.Execution()) + showMembers(*j.Options()) + showMembers(*j.Details())
}

// showMembers prints the exported members of a struct that are not zero.
func showMembers(of any) (text string) {
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && !v.Field(i).IsZero() {
			text += fmt.Sprintf("%s:%+v ", f.Name, v.Field(i).Interface())
		}
	}
	return text
}

// check compares all that can be read.
func (p *pair) check(t *rapid.T) {
	m, naive := p.machine, p.naive
	if err := m.CheckIndexes(); err != nil {
		t.Fatal(err)
	}
	got, want := m.Meta(), naive.meta
	if !proto.Equal(got, want) {
		t.Fatalf("scalars\n got %v\nwant %v", got, want)
	}
	v := m.View()
	checkJobs(t, m, v, naive)
	checkListings(t, v, naive)
	checkWorkers(t, m, v, naive)
	checkRecords(t, v, naive)
	checkRemembers(t, m, naive)
	checkDueCrons(t, m, naive)
	checkDeadline(t, m, naive)
	for _, types := range [][]string{nil, {"a"}, {""}, {"", "b"}, {"none"}} {
		if got, want := m.Ready(types), naive.best(types) != nil; got != want {
			t.Fatalf("ready for %q: %v, want %v", types, got, want)
		}
	}
}

// checkRemembers asks for some claim, made or not.
func checkRemembers(t *rapid.T, m *fsm.Machine, naive *model) {
	worker, request := pick(t, workers, "worker"), fmt.Sprint("r", roll(t, 25, "request"))
	known := slices.ContainsFunc(naive.claims, func(r *fsm.ClaimRecord) bool {
		return r.Worker == worker && r.RequestId == request
	})
	if got := m.Remembers(worker, request); got != known {
		t.Fatalf("claim %s of worker %q: remembered %v, want %v", request, worker, got, known)
	}
}

// checkDueCrons asks which schedules are due at some time.
func checkDueCrons(t *rapid.T, m *fsm.Machine, naive *model) {
	now := sum(naive.meta.NowMs, rapid.Int64Range(0, 50).Draw(t, "due by"))
	var got, want []string
	m.DueCrons(now, func(c *fsm.Cron) bool { got = append(got, c.Name); return true })
	due := slices.Clone(naive.crons)
	slices.SortStableFunc(due, func(a, b *fsm.Cron) int { return cmp.Compare(a.NextAtMs, b.NextAtMs) })
	for _, c := range due {
		if !c.Paused && c.NextAtMs != 0 && c.NextAtMs <= now {
			want = append(want, c.Name)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("schedules due by %d: %v, want %v", now, got, want)
	}
}

// checkDeadline checks that an idle leader sleeps neither too long nor for
// ever.
func checkDeadline(t *rapid.T, m *fsm.Machine, naive *model) {
	want, exact := naive.wakes()
	at, ok := m.NextDeadline(nil)
	if exact && want < math.MaxInt64 && (!ok || at > max(want, naive.meta.NowMs)) {
		t.Fatalf("next deadline %d (%v), must not be after %d", at, ok, want)
	}
	if !exact && ok && !naive.mayWake() {
		t.Fatalf("next deadline %d, but there is nothing to wait for", at)
	}
}

// wakes returns the next time at which the model acts without a request.
func (m *model) wakes() (at int64, ok bool) {
	consider := func(t int64) {
		if !ok || t < at {
			at, ok = t, true
		}
	}
	if d, there := m.next(); there {
		consider(d.at)
	}
	for _, j := range m.jobs {
		if hasEnded(j.Status) && !m.isKept(j) {
			keepMs, _ := m.retention(j.Type, j.Status == fsm.Dead)
			consider(keptUntil(j, keepMs))
		}
	}
	for _, b := range m.batches {
		if b.Pending() == 0 {
			consider(m.batchEnd(b))
		}
	}
	for _, h := range m.holds {
		consider(h.UntilMs)
	}
	for _, k := range m.tokens {
		if k.ExpiresMs != 0 {
			consider(k.ExpiresMs)
		}
	}
	for _, a := range m.artefacts {
		if m.reserved(a.Id) != nil {
			consider(a.UntilMs)
		}
	}
	for _, q := range m.queues {
		if m.permitComesBack(q) {
			consider(m.permitAt(q))
		}
	}
	for _, l := range m.limits {
		if l.OpensAtMs != 0 {
			consider(l.OpensAtMs)
		} else if idle, ok := m.idleAt(l); ok {
			consider(idle)
		}
	}
	for _, c := range m.crons {
		if !c.Paused && c.NextAtMs != 0 {
			consider(c.NextAtMs)
		}
	}
	if _, there := m.unsettled(); there {
		consider(m.meta.NowMs)
	}
	return at, ok
}

// permitComesBack is whether time alone lets a type's jobs be claimed again.
func (m *model) permitComesBack(q *fsm.QueueSettings) bool {
	if q.RateMilli <= 0 || m.level(q) >= permit {
		return false
	}
	free := fsmpb.Copy(q)
	free.RateMilli = 0
	c := m.copied()
	c.queues = put(c.queues, free, byQueueName)
	return c.bestOfType(q.Name) != nil
}

// permitAt is when there is a permit again.
func (m *model) permitAt(q *fsm.QueueSettings) int64 {
	missing := permit - m.level(q)
	return sum(m.meta.NowMs, 1+(missing-1)/q.RateMilli)
}

// mayWake is whether there is anything that a machine may look after in vain:
// a type that is limited in other ways beside its rate.
func (m *model) mayWake() bool {
	for _, q := range m.queues {
		if q.RateMilli > 0 && slices.ContainsFunc(m.jobs, func(j *fsm.Job) bool { return j.Type == q.Name && j.Status == fsm.Unclaimed }) {
			return true
		}
	}
	return false
}
