package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/storage/archive"
	"osqueue/storage/document"
	"osqueue/tests/cluster"
	"osqueue/tests/cluster/store"
	"osqueue/tests/model"
)

// All nodes are killed under load, at a random moment, and their disks are lost. New nodes
// start from the bucket, repeatedly from the same one: every job and every completion that was
// acknowledged at level object exists, and the new nodes start from a state that the old ones
// had committed. OSQUEUE_SEED repeats the random moments.
func TestLossOfEverything(t *testing.T) { //nolint:tparallel // rounds follow each other
	t.Parallel()
	rounds := 6 // each trouble with an inline and with a large document
	if testing.Short() {
		rounds = 1
	}
	seed := freshSeed(t)
	t.Logf("OSQUEUE_SEED=%d", seed)
	d := &disasters{
		store: store.Start(t), ledger: model.NewLedger(),
		rng: rand.New(rand.NewPCG(seed, 0)), left: make(map[string]string),
	}
	for round := range rounds {
		if !t.Run(fmt.Sprintf("round=%d", round), func(t *testing.T) { d.round(t, round) }) {
			return
		}
	}
	t.Run("end", d.end)
}

// disasters is a bucket that several clusters use one after the other.
type disasters struct {
	store  *store.Store
	ledger *model.Ledger
	rng    *rand.Rand
	states []model.State     // of the document, of all clusters so far
	left   map[string]string // the jobs in it when the last cluster died, with their statuses
}

// start starts a cluster without data, and checks the state that it adopts.
func (d *disasters) start(t *testing.T, round int) *cluster.Cluster {
	t.Helper()
	flags := append([]string{"--broker-timeout", "2s", "--broker-heartbeat", "500ms", "--standby-retry", "1s", "--max-flush-lag", "5s"}, wholeLog...)
	c := cluster.Start(t, cluster.Options{
		Prefix: fmt.Sprintf("r%dn", round), Bucket: d.store.URL(), Flags: flags,
	})
	jobs := allJobs(t, c)
	if err := d.ledger.CheckSafe(jobs); err != nil {
		t.Fatal(err)
	}
	for id, status := range d.left {
		now, ok := jobs[id]
		ranOut := status == v1.StatusInProgress && now == v1.StatusUnclaimed // its lease, meanwhile
		if !ok || now != status && !ranOut {
			t.Errorf("job %s was %s in the document and is %q", id, status, now)
		}
	}
	if len(jobs) != len(d.left) {
		t.Errorf("the document had %d jobs, there are %d now", len(d.left), len(jobs))
	}
	return c
}

// round runs a cluster until it is killed.
func (d *disasters) round(t *testing.T, round int) {
	c := d.start(t, round)
	before, _ := d.ledger.Safe()
	l := startLoadInto(t, c, d.ledger, true)
	d.trouble(t, round)
	c.Eventually(cluster.LeaderTimeout, "writes to reach the bucket", func() error {
		if now, _ := d.ledger.Safe(); now < before+10 {
			return fmt.Errorf("%d have", now-before)
		}
		return nil
	})
	pause(t.Context(), time.Duration(d.rng.Int64N(int64(time.Second))))
	c.KillAll()
	l.abandon()
	if d.store.HasProxy() {
		d.store.Proxy(t).Behave()
	}
	d.store.Settle()
	d.inspect(t, c)
	for _, n := range c.Nodes {
		n.Wipe()
	}
}

// trouble gives the store, in two of three rounds, the behavior of real stores: delays, so that
// a write is always in flight when the nodes die, or faults.
func (d *disasters) trouble(t *testing.T, round int) {
	t.Helper()
	if !d.store.HasProxy() {
		return
	}
	switch p := d.store.Proxy(t); round % 3 {
	case 1:
		p.SetSlow(time.Duration(50+d.rng.IntN(150)) * time.Millisecond)
	case 2:
		p.Misbehave(d.rng.Uint64(), 0.1)
	}
}

// inspect checks the documents of a dead cluster: all of them are states that it had committed,
// the last one on a majority.
func (d *disasters) inspect(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	mine := d.read(t)
	if compared, errs := replay(c, mine); len(errs) == len(c.Nodes) {
		t.Fatal(errs)
	} else {
		t.Logf("%d versions of queue.json, %d states compared with a log", len(mine), compared)
	}
	if _, errs := replay(c, mine[len(mine)-1:]); len(errs) > len(c.Nodes)/2 {
		t.Fatalf("the last state is not on a majority: %v", errs)
	}
	verify(t, d.store)
	d.left = d.document(t)
	jobs, completions := d.ledger.Safe()
	t.Logf("%d jobs in the document; acknowledged as in the bucket so far: %d jobs, %d completions",
		len(d.left), jobs, completions)
}

// read reads the versions since the last call, and checks all versions so far.
func (d *disasters) read(t *testing.T) (fresh []model.State) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fresh, err := model.Read(ctx, d.store.Bucket(), d.store.Versions()[len(d.states):])
	if err != nil {
		t.Fatal(err)
	}
	d.states = append(d.states, fresh...)
	if err := model.Documents(d.states); err != nil {
		t.Fatal(err)
	}
	return fresh
}

// document returns the jobs in the bucket, with their statuses.
func (d *disasters) document(t *testing.T) map[string]string {
	t.Helper()
	o, err := d.store.Bucket().Get(t.Context(), "queue.json")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := document.Decode(o.Data)
	if err != nil {
		t.Fatal(err)
	}
	m, err := archive.Machine(t.Context(), d.store.Bucket(), doc)
	if err != nil {
		t.Fatal(err)
	}
	jobs := make(map[string]string)
	v := m.View()
	for status, want := range v.Counts() {
		had := len(jobs)
		v.Jobs(fsm.Status(status), 0, func(j *fsm.Job) bool {
			jobs[j.ID] = fsm.Status(status).String()
			return true
		})
		if n := len(jobs) - had; n != want {
			t.Fatalf("%d of %d jobs read that are %s", n, want, fsm.Status(status))
		}
	}
	return jobs
}

// end lets a last cluster finish all remaining jobs.
func (d *disasters) end(t *testing.T) {
	c := d.start(t, 1)
	l := startLoadInto(t, c, d.ledger, true)
	l.waitSent(20)
	if err := d.ledger.CheckSafe(l.drain()); err != nil {
		t.Fatal(err)
	}
	c.StopAll()
	d.store.Settle()
	d.inspect(t, c)
	noEdits(t.Context(), t, d.store)
	if jobs, completions := d.ledger.Safe(); jobs == 0 || completions == 0 {
		t.Errorf("%d jobs and %d completions reached the bucket in time", jobs, completions)
	}
}
