package fsm_test

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// TestTakeoverSparesWhatRanOutInTheGap leaves a machine of any past without a
// leader for a while. At the takeover every lease and every worker still exists; without
// further heartbeats each of them lasts its full time from there, and not a millisecond
// more.
func TestTakeoverSparesWhatRanOutInTheGap(t *testing.T) {
	t.Parallel()
	spared := 0
	rapid.Check(t, func(t *rapid.T) {
		m := ofAnyPast(t)
		before := m.Meta()
		if before.NowMs > math.MaxInt64/2 || before.Epoch == math.MaxUint64 || before.Settings.WorkerTimeoutMs < 0 {
			return // the end of time, of epochs, or of patience
		}
		held, alive := running(m), workersOf(m)
		now := before.NowMs + rapid.Int64Range(0, 500).Draw(t, "gap")

		lone := copyOf(t, m) // the same time passes without a takeover
		apply(t, lone, now)
		spared += len(held) - len(running(lone)) + len(alive) - len(workersOf(lone))

		r := apply(t, m, now, &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
			Node: "successor", Epoch: before.Epoch + 1,
		}}})
		if r[0].Code != fsm.OK {
			t.Fatalf("the takeover was refused: %v", r[0].Code)
		}
		for _, j := range held {
			mustHold(t, m, j)
		}
		if got := workersOf(m); !slices.Equal(got, alive) {
			t.Fatalf("workers %q, want %q", got, alive)
		}
		lastsItsFullTime(t, m, held, alive)
	})
	if spared == 0 {
		t.Error("no gap was long enough to cost anything")
	}
}

// A state from elsewhere may count leases from a time that its clock has not
// reached. A takeover must not make them shorter: timers never move back.
func TestTakeoverNeverShortensLeases(t *testing.T) {
	b := fsm.NewBuilder(&fsm.Meta{NowMs: 1000, LastSeq: 1, LastToken: 1, LeasesFromMs: 200_000, Settings: fsm.DefaultSettings()})
	err := b.AddJob(&fsm.Job{
		Seq: 1, ID: "a", Status: fsm.InProgress, Exec: &fsm.Execution{Worker: "w", HeldMs: 500, Token: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	m := b.Machine()
	apply(t, m, 1500, registerBroker("n", 1, fsm.DefaultSettings()))
	if got := m.Meta().LeasesFromMs; got != 200_000 {
		t.Errorf("leases count from %d, and did from 200000", got)
	}
	if err := m.CheckIndexes(); err != nil {
		t.Error(err)
	}
	apply(t, m, 200_500)
	if j := m.Job("a"); j.Status != fsm.InProgress {
		t.Errorf("the lease is lost: %+v", j)
	}
}

// ofAnyPast is a machine that a random log has led somewhere.
func ofAnyPast(t *rapid.T) *fsm.Machine {
	m, w := fsm.New(), &workload{now: 1_000_000}
	for range 15 {
		b := w.batch(t)
		w.learn(b, apply(t, m, b.NowMs, b.Mutations...))
	}
	return m
}

// lastsItsFullTime lets time pass over leases that count from now: each stands
// to its last millisecond, unless its worker is declared dead before, and ends
// with the next.
func lastsItsFullTime(t *rapid.T, m *fsm.Machine, held []*fsm.Job, alive []string) {
	from, patience := m.Now(), m.Meta().Settings.WorkerTimeoutMs
	slices.SortFunc(held, func(a, b *fsm.Job) int { return cmp.Compare(a.Execution().HeldMs, b.Execution().HeldMs) })
	for _, next := range held {
		ms := next.Execution().HeldMs
		if ms > 1<<40 {
			return // too long to wait for
		}
		if from+ms >= m.Now() { // else another lease was as long
			apply(t, m, from+ms)
			for _, j := range held {
				if j.Execution().HeldMs >= ms && (ms <= patience || !slices.Contains(alive, j.Execution().Worker)) {
					mustHold(t, m, j)
				}
			}
		}
		apply(t, m, from+ms+1)
		if j := m.Job(next.ID); j != nil && j.Status == fsm.InProgress {
			t.Fatalf("a lease of %d ms stands after %d: %+v", ms, m.Now()-from, j)
		}
	}
}

func mustHold(t *rapid.T, m *fsm.Machine, lease *fsm.Job) {
	j := m.Job(lease.ID)
	if j == nil || j.Status != fsm.InProgress || j.Execution().Token != lease.Execution().Token || j.Execution().Worker != lease.Execution().Worker {
		t.Fatalf("%d ms after the takeover the lease is lost:\nfrom %+v\n  to %+v", m.Now()-m.Meta().LeasesFromMs, lease, j)
	}
}

func running(m *fsm.Machine) (jobs []*fsm.Job) {
	m.View().Jobs(fsm.InProgress, 0, func(j *fsm.Job) bool {
		if j.Details().TimeoutMs == 0 { // else it may end before its lease
			jobs = append(jobs, j)
		}
		return true
	})
	return jobs
}

func workersOf(m *fsm.Machine) (names []string) {
	for w := range m.View().Workers("") {
		names = append(names, w.Name)
	}
	return names
}
