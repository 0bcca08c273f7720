package cluster

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/crontab"
	"osqueue/internal/storagetest"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
	"osqueue/storage/mem"
)

// mustFind fails the test if no violation contains one of the words.
func mustFind(t *testing.T, failures []string, words ...string) {
	t.Helper()
	found := slices.ContainsFunc(failures, func(f string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(f, w) })
	})
	if !found {
		t.Errorf("none of %q is found; found is %q", words, failures)
	}
}

// Each check must find the violation for which it was written.
func TestSimChecksFind(t *testing.T) {
	lease := simLease
	job := func(s fsm.Status, token uint64) *fsm.Job {
		return &fsm.Job{ID: "j", Status: s, Exec: &fsm.Execution{Token: token}}
	}
	enqueued := fsm.Event{Job: job(fsm.Unclaimed, 0)}
	claimed := fsm.Event{Job: job(fsm.InProgress, 7), From: fsm.Unclaimed}
	completed := fsm.Event{Job: job(fsm.Completed, 7), From: fsm.InProgress}
	released := fsm.Event{Job: job(fsm.Unclaimed, 7), From: fsm.InProgress}
	expired := fsm.Event{Job: &fsm.Job{
		ID: "j", Status: fsm.Unclaimed,
		Exec: &fsm.Execution{
			Token: 7,
		},
		AttemptEnd: fsm.EndLease,
	}, From: fsm.InProgress}
	removed := fsm.Event{Kind: fsm.JobRemoved, Job: job(fsm.Completed, 7), Removed: true}
	for name, c := range map[string]struct {
		events []fsm.Event
		know   func(w *simWorld, l *simLedger) // called before the last event
		found  string                          // expected violation; "": none
	}{
		"in order":            {events: []fsm.Event{enqueued, claimed, completed, removed}},
		"released":            {events: []fsm.Event{enqueued, claimed, released}},
		"invented":            {events: []fsm.Event{enqueued}, know: func(w *simWorld, _ *simLedger) { delete(w.asked, "j") }, found: "invented"},
		"twice":               {events: []fsm.Event{enqueued, enqueued}, found: "a second time"},
		"out of nothing":      {events: []fsm.Event{claimed}, found: "is not there"},
		"another status":      {events: []fsm.Event{enqueued, completed}, found: "becomes completed from in_progress"},
		"completed twice":     {events: []fsm.Event{enqueued, claimed, completed, completed}, found: "which is completed"},
		"removed too early":   {events: []fsm.Event{enqueued, claimed, removed}, found: "before it had ended"},
		"token again":         {events: []fsm.Event{enqueued, claimed, released, claimed}, found: "token 7"},
		"token of another":    {events: []fsm.Event{enqueued, claimed}, know: func(w *simWorld, _ *simLedger) { w.tokens[7] = "k" }, found: "which job k had"},
		"token goes back":     {events: []fsm.Event{enqueued, claimed}, know: func(_ *simWorld, l *simLedger) { l.token = 9 }, found: "after 9"},
		"completed by no one": {events: []fsm.Event{enqueued, claimed, {Job: job(fsm.Completed, 6), From: fsm.InProgress}}, found: "with token 6"},
		"lease too short": {events: []fsm.Event{enqueued, claimed, expired}, know: func(_ *simWorld, l *simLedger) {
			j := l.jobs["j"]
			j.leased, j.held, j.renewed = 7, lease, time.Now().Add(-lease*8/10)
		}, found: "the lease of job j"},
		"lease in full": {events: []fsm.Event{enqueued, claimed, expired}, know: func(_ *simWorld, l *simLedger) {
			j := l.jobs["j"]
			j.leased, j.held, j.renewed = 7, lease, time.Now().Add(-lease)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimWorld(1, storagetest.NewCounts())
			w.ask("j")
			l := newSimLedger(w, "a")
			for i, e := range c.events {
				if c.know != nil && i == len(c.events)-1 {
					c.know(w, l)
				}
				l.note(simStateAt(t, uint64(i+1)), []fsm.Event{e})
			}
			if c.found == "" && len(w.failures) > 0 {
				t.Errorf("found is %q", w.failures)
			} else if c.found != "" {
				mustFind(t, w.failures, c.found)
			}
		})
	}
}

// simStateAt returns a state of term 1 with as many jobs as its index.
func simStateAt(t *testing.T, index uint64) *fsm.View {
	t.Helper()
	m := fsm.New()
	for i := range index {
		id := string(rune('a' + i%26))
		m.Apply(i+1, 1, &fsmpb.Batch{NowMs: int64(i), Mutations: []*fsmpb.Mutation{{
			Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: id, Type: "t"}}}},
		}}})
	}
	return m.View()
}

func TestSimFindsAnotherState(t *testing.T) {
	w := newSimWorld(1, storagetest.NewCounts())
	n := &simNode{cluster: &simCluster{name: "a"}, name: "a1"}
	v := simStateAt(t, simSample)
	w.applied(n, v, nil)
	w.applied(n, v, nil)
	if len(w.failures) > 0 {
		t.Fatal(w.failures)
	}
	m := fsm.New()
	m.Apply(simSample, 1, &fsmpb.Batch{})
	w.applied(n, m.View(), nil)
	mustFind(t, w.failures, "has another state")
}

func TestSimFindsAScheduleThatFiresTwice(t *testing.T) {
	w := newSimWorld(1, storagetest.NewCounts())
	l := newSimLedger(w, "a")
	fire := func(at int64) {
		id, err := crontab.NewID(at)
		if err != nil {
			t.Fatal(err)
		}
		l.fire(fsm.LSN{}, "c", id)
	}
	fire(30_000)
	fire(60_000)
	if len(w.failures) > 0 {
		t.Fatal(w.failures)
	}
	fire(60_000)
	mustFind(t, w.failures, "has fired for 60000")
	fire(120_000)
	mustFind(t, w.failures, "times in between are lost")
}

func TestSimFindsAStaleRead(t *testing.T) {
	var s *simRun
	synctest.Test(t, func(*testing.T) {
		s = newSimRun(1, 3, storagetest.NewCounts())
		s.use(func() {
			s.answered("a", fsm.LSN{Term: 1 << 40})
			time.Sleep(5 * time.Second)
		})
	})
	mustFind(t, s.failed(), "reads at")
}

// simDocument returns a document of a state, and puts its checkpoint into a bucket.
func simDocument(b storage.Bucket, v *fsm.View, node string, epoch uint64) []byte {
	c, err := archive.WriteCheckpoint(context.Background(), b, "l", fsm.LSN{}, v)
	if err != nil {
		panic(err)
	}
	content := &document.Content{
		Archive: &document.Archive{Checkpoint: c, Tail: archive.NewTail(c.LSN).Frame()}, Meta: v.Meta(), Counts: v.Counts(),
	}
	return document.Encode(content, document.Header{Lineage: "l", Cluster: "a", Epoch: epoch, Node: node}, "x:1", 1)
}

func copyAll(t *testing.T, to, from storage.Bucket) {
	t.Helper()
	err := from.List(t.Context(), "", func(i storage.Info) bool {
		o, err := from.Get(t.Context(), i.Key)
		if err == nil {
			err = to.PutIfAbsent(t.Context(), i.Key, o.Data).Err
		}
		if err != nil {
			t.Fatal(err)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSimFindsAWrongDocument(t *testing.T) {
	four, five := simStateAt(t, 4), simStateAt(t, 5)
	other := fsm.New()
	other.Apply(4, 1, &fsmpb.Batch{NowMs: 3})
	checkpoints := mem.New()
	doc := func(v *fsm.View, node string, epoch uint64) []byte { return simDocument(checkpoints, v, node, epoch) }
	for name, c := range map[string]struct {
		docs  [][]byte
		found string
	}{
		"in order":           {docs: [][]byte{doc(four, "a1", 1), doc(five, "a2", 2)}},
		"goes back":          {docs: [][]byte{doc(five, "a1", 1), doc(four, "a1", 1)}, found: "went back"},
		"epoch goes back":    {docs: [][]byte{doc(four, "a1", 2), doc(five, "a1", 1)}, found: "went back"},
		"two in an epoch":    {docs: [][]byte{doc(four, "a1", 1), doc(five, "a2", 1)}, found: "in the epoch of"},
		"not a state":        {docs: [][]byte{doc(other.View(), "a1", 1)}, found: "not the state"},
		"where nobody was":   {docs: [][]byte{doc(simStateAt(t, 6), "a1", 1)}, found: "where nobody was"},
		"cannot be read":     {docs: [][]byte{[]byte("{")}, found: "cannot be read"},
		"removed by someone": {docs: [][]byte{doc(four, "a1", 1), nil}, found: "was removed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimWorld(1, storagetest.NewCounts())
			copyAll(t, w.store, checkpoints)
			n := &simNode{cluster: &simCluster{name: "a"}, name: "a1"}
			w.applied(n, four, nil)
			w.applied(n, five, nil)
			var at storage.Version
			for _, d := range c.docs {
				switch {
				case d == nil:
					_ = w.record.Delete(t.Context(), DocumentKey)
				case at == "":
					at = w.record.PutIfAbsent(t.Context(), DocumentKey, d).Version
				default:
					at = w.record.PutIfMatch(t.Context(), DocumentKey, d, at).Version
				}
			}
			w.checkDocuments()
			if c.found == "" && len(w.failures) > 0 {
				t.Errorf("found is %q", w.failures)
			} else if c.found != "" {
				mustFind(t, w.failures, c.found)
			}
		})
	}
}

func TestSimFindsThatANeededObjectIsRemoved(t *testing.T) {
	w := newSimWorld(1, storagetest.NewCounts())
	v := simStateAt(t, 4)
	w.applied(&simNode{cluster: &simCluster{name: "a"}, name: "a1"}, v, nil)
	data := simDocument(w.record, v, "a1", 1)
	w.record.PutIfAbsent(t.Context(), DocumentKey, data)
	doc, err := document.Decode(data)
	if err == nil {
		err = w.record.Delete(t.Context(), doc.Archive.Checkpoint.Key)
	}
	if err != nil {
		t.Fatal(err)
	}
	mustFind(t, w.failures, "needs it")
	w.checkDocuments()
	mustFind(t, w.failures, "names what is not there")
}

// The check of an adoption must find that a bucket lacks a write that it acknowledged.
func TestSimFindsWhatTheBucketHasLost(t *testing.T) {
	old, adopted := simStateAt(t, 1), simStateAt(t, 9)
	for name, j := range map[string]*simJob{
		"enqueued behind": {enqueued: fsm.LSN{Term: 1, Index: 3}, acked: true, safe: true, status: fsm.Unclaimed},
		"ended behind": {
			enqueued: fsm.LSN{Term: 1, Index: 1}, status: fsm.Completed, completed: fsm.LSN{Term: 1, Index: 3},
			ended: fsm.LSN{Term: 1, Index: 3}, done: true, kept: true,
		},
		"gone": {enqueued: fsm.LSN{Term: 1, Index: 1}, status: fsm.Unclaimed},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimWorld(1, storagetest.NewCounts())
			l := newSimLedger(w, "a")
			l.jobs["z"] = j
			l.fork("a", old.LSN(), adopted, nil)
			mustFind(t, w.failures, "is not in the document")
		})
	}
}

func TestSimFindsWhatWasNotKept(t *testing.T) {
	done := &simJob{status: fsm.Cancelled, done: true, doneLSN: fsm.LSN{Term: 1, Index: 2}}
	for name, c := range map[string]struct {
		jobs  map[string]*simJob
		lines []*simLedger
		found string
	}{
		"running":             {jobs: map[string]*simJob{"j": {status: fsm.InProgress}}, found: "in the end"},
		"completed otherwise": {jobs: map[string]*simJob{"j": done}, found: "acknowledged as completed"},
		"a line is lost":      {lines: []*simLedger{{jobs: map[string]*simJob{"j": {}}}}, found: "nobody has gone on with"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimWorld(1, storagetest.NewCounts())
			l := newSimLedger(w, "a")
			l.jobs, w.lines = c.jobs, c.lines
			l.finish()
			mustFind(t, w.failures, c.found)
		})
	}
}

// sabotage runs a deck of faults against a cluster that breaks a promise, until a
// violation contains one of the words.
func sabotage(t *testing.T, begin func(seed uint64) *simRun, deck []string, words ...string) {
	t.Helper()
	for seed := range uint64(10) {
		var s *simRun
		synctest.Test(t, func(*testing.T) {
			s = begin(seed + 1)
			s.play(decked(deck))
		})
		if f := s.failed(); len(f) > 0 {
			t.Logf("seed %d: %s", seed+1, f[0])
			mustFind(t, f, words...)
			return
		}
	}
	t.Error("nothing is found")
}

func decked(names []string) (deck []simFault) {
	for _, name := range names {
		for _, f := range simFaults() {
			if f.name == name {
				deck = append(deck, f)
			}
		}
	}
	return deck
}

// The disks forget the newest entries that they have confirmed.
func TestSimFindsDisksThatForget(t *testing.T) {
	sabotage(t, func(seed uint64) *simRun {
		s := newSimRun(seed, 3, storagetest.NewCounts())
		for _, n := range s.a.nodes {
			n.forgets = 40
		}
		return s
	}, []string{"all crashed", "all crashed", "all crashed"},
		"though nothing was lost", "than the node before it", "was applied after", "is not there", "a second time")
}

// lawless is a bucket that accepts every write, whatever its condition.
type lawless struct{ storage.Bucket }

// PutIfMatch implements storage.Bucket, but ignores the version.
func (b lawless) PutIfMatch(ctx context.Context, key string, data []byte, _ storage.Version) storage.Write {
	for {
		o, err := b.Get(ctx, key)
		if err != nil {
			return storage.Write{Err: err}
		}
		if w := b.Bucket.PutIfMatch(ctx, key, data, o.Version); w.Outcome != storage.Conflict {
			return w
		}
	}
}

// With such a bucket, late writes of a deposed leader overwrite those of its successor.
func TestSimFindsABucketWithoutConditions(t *testing.T) {
	sabotage(t, func(seed uint64) *simRun {
		return newSimRun(seed, 3, storagetest.NewCounts(), func(b storage.Bucket) storage.Bucket { return lawless{b} })
	}, []string{"bucket: deliver-late", "leader alone", "bucket: deliver-late", "leader crashed", "rival cluster"},
		"went back", "in the epoch of", "is active while another cluster is", "two clusters are active")
}
