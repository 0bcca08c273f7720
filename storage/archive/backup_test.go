package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
	"osqueue/storage/mem"
)

// failer is *testing.T or *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// before returns a bucket that calls do before each operation. An error of do is the answer.
func before(inner storage.Bucket, do func(storage.Call) error) storage.Bucket {
	return storage.Decorate(inner, func(ctx context.Context, c storage.Call, next func(context.Context) storage.Answer) storage.Answer {
		if err := do(c); err != nil {
			return c.Refuse(err)
		}
		return next(ctx)
	})
}

// backUp makes a backup of the world that must succeed.
func (w *world) backUp(t failer, to storage.Bucket, keep time.Duration) *BackedUp {
	t.Helper()
	out, err := BackUp(w.ctx, w.bucket, to, rootKey, keep)
	if err != nil {
		t.Fatalf("back up %s: %v", w.root.LSN(), err)
	}
	return out
}

// checkBackups checks that each backup leads to the state that the chain had, and returns them.
func (w *world) checkBackups(t failer, to storage.Bucket) []Backup {
	t.Helper()
	all, err := Backups(w.ctx, to)
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, b := range all {
		h, err := open(w.ctx, to, b.Key())
		if err != nil {
			t.Fatalf("open %s: %v", b.Key(), err)
		}
		m, err := h.At(w.ctx, Target{})
		if err != nil {
			t.Fatalf("restore %s: %v", b.Key(), err)
		}
		if m.LSN() != b.LSN || m.View().Hash() != w.chain[b.LSN] {
			t.Fatalf("the backup %s has another state, of %s", b.Key(), m.LSN())
		}
	}
	return all
}

func (w *world) grow() {
	w.record(3)
	w.cut(w.leader)
	w.record(2)
	w.flush(true)
}

// TestBackupsOfAWorld takes backups between any actions of leaders and collectors. All that are kept can be restored,
// also when a backup was cut.
func TestBackupsOfAWorld(t *testing.T) {
	t.Parallel()
	counts := make(counts)
	rapid.Check(t, func(rt *rapid.T) {
		w, to := newWorld(t.Context(), 1_700_000_000_000), mem.New()
		w.counts = counts
		if rapid.Bool().Draw(rt, "young") {
			w.young()
		}
		for range 5 {
			for range rapid.IntRange(1, 12).Draw(rt, "steps") {
				w.step(rt)
			}
			if w.root == nil {
				continue
			}
			keep := time.Duration(rapid.IntRange(0, 1500).Draw(rt, "keep")) * time.Millisecond
			var left atomic.Int64
			left.Store(int64(rapid.IntRange(0, 40).Draw(rt, "operations")))
			ctx, cancel := context.WithCancel(w.ctx)
			out, err := BackUp(ctx, w.bucket, before(to, func(storage.Call) error {
				if left.Add(-1) < 0 {
					cancel()
				}
				return ctx.Err()
			}), rootKey, keep)
			cancel()
			switch {
			case err == nil && out.Newer == nil:
				counts["written"]++
				counts["removed"] += out.Removed
			case err == nil:
				rt.Fatalf("not written: there is %v", out.Newer)
			default:
				counts["cut"]++
			}
			all := w.checkBackups(rt, to)
			if err == nil && (len(all) == 0 || all[len(all)-1] != out.Backup) {
				rt.Fatalf("the newest backup is not %v, but %v", out.Backup, all)
			}
		}
	})
	for _, what := range []string{"written", "cut", "removed", "adoption", "succession", "collected"} {
		if counts[what] == 0 && !fewChecks() {
			t.Errorf("%s: not once", what)
		}
	}
	t.Log(counts)
}

// A backup that is cut before any of its operations leaves no backup, and the one after it copies the rest only.
func TestBackupIsCutAnywhere(t *testing.T) {
	t.Parallel()
	w := fixedWorld(testContext(t), true)
	whole, to := w.backUp(t, mem.New(), 0), mem.New()
	puts := 0
	for n := 1; ; n++ {
		ctx, cancel := context.WithCancel(w.ctx)
		var count atomic.Int64
		out, err := BackUp(ctx, w.bucket, before(to, func(c storage.Call) error {
			if count.Add(1) >= int64(n) {
				cancel()
			}
			return ctx.Err()
		}), rootKey, 0)
		cancel()
		if err == nil {
			puts += out.Copied
			break
		}
		if !errors.Is(err, context.Canceled) || out != nil || n > 100 {
			t.Fatalf("cut before operation %d: %+v, %v", n, out, err)
		}
		if all := w.checkBackups(t, to); len(all) != 0 {
			t.Fatalf("cut before operation %d: %v", n, all)
		}
	}
	if puts >= whole.Objects || whole.Copied != whole.Objects || whole.Objects < 6 || whole.Bytes == 0 {
		t.Errorf("the last one copied %d of %+v", puts, whole)
	}
	if again := w.backUp(t, to, 0); again.Copied != 0 || again.Bytes != 0 || again.Backup != whole.Backup {
		t.Errorf("again: %+v", again)
	}
	w.grow()
	if next := w.backUp(t, to, 0); next.Copied != 1 {
		t.Errorf("after one segment: %+v", next)
	}
	if all := w.checkBackups(t, to); len(all) != 2 {
		t.Error(all)
	}
}

// While a backup reads, the leader may write a checkpoint and collect what the document named.
func TestBackupBeginsAgainWhenObjectsAreCollected(t *testing.T) {
	t.Parallel()
	for n := 2; ; n++ { // the first read is that of the document
		w, to := fixedWorld(testContext(t), true), mem.New()
		var mu sync.Mutex
		reads := 0
		from := before(w.bucket, func(c storage.Call) error {
			if c.Op != storage.OpGet {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			if reads++; reads == n {
				old := w.root.Archive
				w.checkpoint(w.leader)
				w.flush(true)
				must(w.bucket.Delete(w.ctx, old.Checkpoint.Key))
				for i := range old.Log {
					must(w.bucket.Delete(w.ctx, old.Log[i].Key))
				}
			}
			return nil
		})
		out, err := BackUp(w.ctx, from, to, rootKey, 0)
		if err != nil {
			t.Fatalf("collected before read %d: %v", n, err)
		}
		if all := w.checkBackups(t, to); len(all) != 1 || all[0].LSN != out.LSN {
			t.Fatal(all)
		}
		if reads < n {
			if n < 6 {
				t.Errorf("only %d reads", n)
			}
			return
		}
	}
}

// A damaged or missing object of the source is an error that names it, and not a backup.
func TestBackupRefusesADamagedSource(t *testing.T) {
	t.Parallel()
	whole := fixedWorld(testContext(t), true)
	needs, _, err := NewAudit(whole.bucket).needs(whole.ctx, whole.root.Archive)
	must(err)
	for _, n := range needs {
		for _, how := range []string{"removed", "flipped"} {
			w, to := whole.copied(whole.ctx), mem.New()
			w.damage(n.key, damages[how])
			_, err := BackUp(w.ctx, w.bucket, to, rootKey, 0)
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), n.key) || !strings.HasPrefix(err.Error(), "read the source") {
				t.Errorf("%s %s: %v", n.key, how, err)
			}
			if all := w.checkBackups(t, to); len(all) != 0 {
				t.Errorf("%s %s: %v", n.key, how, all)
			}
		}
	}
	w := whole.copied(whole.ctx)
	w.damage(rootKey, damages["cut"])
	if _, err := BackUp(w.ctx, w.bucket, mem.New(), rootKey, 0); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
	must(w.bucket.Delete(w.ctx, rootKey))
	if _, err := BackUp(w.ctx, w.bucket, mem.New(), rootKey, 0); !errors.Is(err, storage.ErrNotFound) || errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}

// What has become damaged in the target is copied again.
func TestBackupMendsItsTarget(t *testing.T) {
	t.Parallel()
	w, to := fixedWorld(testContext(t), true), mem.New()
	w.backUp(t, to, 0)
	there := &world{ctx: w.ctx, bucket: to}
	for _, key := range there.names() {
		for _, how := range []string{"removed", "cut", "flipped"} {
			if IsBackup(key) && how != "removed" {
				continue
			}
			there.damage(key, damages[how])
			w.backUp(t, to, 0)
			if all := w.checkBackups(t, to); len(all) != 1 {
				t.Errorf("%s %s: %v", key, how, all)
			}
		}
	}
}

func TestBackupRefusesTheTarget(t *testing.T) {
	t.Parallel()
	w, to := fixedWorld(testContext(t), true), mem.New()
	if _, err := BackUp(w.ctx, w.bucket, w.bucket, rootKey, 0); !errors.Is(err, ErrIsQueue) {
		t.Errorf("the same bucket: %v", err)
	}
	m, err := Machine(w.ctx, w.bucket, w.root)
	must(err)
	_, err = Begin(m, Origin{Lineage: otherLineage})
	must(err)
	other := mem.New()
	_, err = WriteBeginning(w.ctx, other, rootKey, "", Beginning{State: m.View(), NowMs: 1})
	must(err)
	_, err = BackUp(w.ctx, other, to, rootKey, 0)
	must(err)
	before := (&world{ctx: w.ctx, bucket: to}).names()
	if _, err := BackUp(w.ctx, w.bucket, to, rootKey, time.Hour); !errors.Is(err, ErrOtherQueue) {
		t.Errorf("backups of another queue: %v", err)
	}
	if after := (&world{ctx: w.ctx, bucket: to}).names(); !slices.Equal(before, after) {
		t.Errorf("the refused target has %v", after)
	}
	must(Put(w.ctx, to, Backup{Lineage: lineage}.Key(), []byte("x")))
	if _, err := OpenBackup(w.ctx, to, Target{}); !errors.Is(err, ErrOtherQueue) {
		t.Errorf("backups of two queues: %v", err)
	}
}

// A backup that ends after a newer one is not written, and two at once are one.
func TestBackupsAtTheSameTime(t *testing.T) {
	t.Parallel()
	w, to, once := fixedWorld(testContext(t), true), mem.New(), false
	from := before(w.bucket, func(c storage.Call) error {
		if c.Key != rootKey && !once {
			once = true
			w.backUp(t, to, 0) // of the same document
			w.checkpoint(w.leader)
			w.grow()
			w.backUp(t, to, time.Millisecond)
		}
		return nil
	})
	out, err := BackUp(w.ctx, from, to, rootKey, 0)
	if err != nil || out.Newer == nil || out.Newer.LSN != w.root.LSN() {
		t.Fatalf("%+v, %v", out, err)
	}
	if all := w.checkBackups(t, to); len(all) != 2 {
		t.Error(all)
	}
	done := make(chan error, 4)
	w.grow()
	for range cap(done) {
		go func() {
			_, err := BackUp(w.ctx, w.bucket, to, rootKey, 0)
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if all := w.checkBackups(t, to); len(all) != 3 {
		t.Error(all)
	}
}

// The newest backup stays, whatever its age, and objects stay while a backup needs them.
func TestBackupsAreRemoved(t *testing.T) {
	t.Parallel()
	w, to := fixedWorld(testContext(t), true), mem.New()
	var taken []Backup
	removed := 0
	for i := range 12 {
		if i%3 == 0 {
			w.checkpoint(w.leader)
		}
		w.grow() // 50 ms
		out := w.backUp(t, to, 120*time.Millisecond)
		removed += out.Removed
		taken = append(taken, out.Backup)
		kept := w.checkBackups(t, to)
		if !slices.Equal(kept, taken[len(taken)-len(kept):]) || len(kept)+removed != len(taken) || len(kept) > 4 {
			t.Fatalf("after %d there are %v, without %d", i+1, kept, removed)
		}
	}
	first := w.checkBackups(t, to)[0]
	r, err := readOriginal(w.ctx, to, first.Key())
	must(err)
	for _, key := range (&world{ctx: w.ctx, bucket: to}).names() {
		if n, ok := parseName(key); ok && n.last.Compare(r.doc.Archive.Checkpoint.LSN) < 0 {
			t.Errorf("%s is older than all backups", key)
		}
	}
	w.leader.r.now += time.Hour.Milliseconds()
	w.grow()
	w.backUp(t, to, time.Second) // it removes nothing: the newest one of before is kept, and all within its second
	w.backUp(t, to, time.Second)
	if all := w.checkBackups(t, to); len(all) != 1 {
		t.Errorf("after an hour: %v", all)
	}
}

// A history of backups has their states, and those of the log around them.
func TestOpenBackup(t *testing.T) {
	t.Parallel()
	w, to := fixedWorld(testContext(t), true), mem.New()
	if _, err := OpenBackup(w.ctx, to, Target{}); !errors.Is(err, storage.ErrNotFound) {
		t.Error(err)
	}
	var taken []Backup
	for range 4 {
		taken = append(taken, w.backUp(t, to, 0).Backup)
		w.record(5)
		w.cut(w.leader)
		w.flush(true)
		w.checkpoint(w.leader) // the log before it is in no backup
		w.grow()
	}
	at := func(target Target) fsm.LSN {
		t.Helper()
		h, err := OpenBackup(w.ctx, to, target)
		must(err)
		m, err := h.At(w.ctx, target)
		if err != nil {
			t.Fatalf("%+v: %v", target, err)
		}
		if m.View().Hash() != w.chain[m.LSN()] {
			t.Errorf("%+v: another state of %s", target, m.LSN())
		}
		return m.LSN()
	}
	newest := taken[len(taken)-1]
	if got := at(Target{}); got != newest.LSN {
		t.Errorf("the newest is %s", got)
	}
	if got := at(Target{Time: time.UnixMilli(newest.At).Add(time.Hour)}); got != newest.LSN {
		t.Errorf("an hour later is %s", got)
	}
	for i, b := range taken {
		if got := at(Target{LSN: b.LSN}); got != b.LSN {
			t.Errorf("%s is %s", b.LSN, got)
		}
		if got := at(Target{Time: time.UnixMilli(b.At)}); got != b.LSN {
			t.Errorf("the time of %s is %s", b.LSN, got)
		}
		if i == 0 {
			continue
		}
		h, err := open(w.ctx, to, b.Key())
		must(err)
		checkpoint := h.doc.Archive.Checkpoint
		if got := at(Target{LSN: checkpoint.LSN}); got != checkpoint.LSN {
			t.Errorf("the checkpoint of %s is %s", checkpoint.LSN, got)
		}
		if got := at(Target{Time: time.UnixMilli(checkpoint.At - 1)}); got != taken[i-1].LSN { // in the hole before it
			t.Errorf("before the checkpoint of %s is %s", checkpoint.LSN, got)
		}
		hole := Target{LSN: fsm.LSN{Term: checkpoint.LSN.Term, Index: checkpoint.LSN.Index - 1}}
		if h, err = OpenBackup(w.ctx, to, hole); err == nil {
			_, err = h.At(w.ctx, hole)
		}
		if !errors.Is(err, ErrNotKept) {
			t.Errorf("in the hole: %v", err)
		}
	}
}

// writeState makes a bucket whose document has a state.
func writeState(t *testing.T, m *fsm.Machine, nowMs int64) storage.Bucket {
	t.Helper()
	bucket := mem.New()
	rewriteState(t, bucket, m, nowMs)
	return bucket
}

func rewriteState(t *testing.T, bucket storage.Bucket, m *fsm.Machine, nowMs int64) {
	t.Helper()
	must(bucket.Delete(t.Context(), rootKey))
	_, err := WriteBeginning(t.Context(), bucket, rootKey, "", Beginning{State: m.View(), NowMs: nowMs})
	must(err)
}

func TestBackupHasTheArtefacts(t *testing.T) {
	m := withArtefacts(t)
	from, to := writeState(t, m, 5), mem.New()
	putObjects(t, from, "a", "c", "d", "e")
	out, err := BackUp(t.Context(), from, to, rootKey, 0)
	if err != nil || out.Artefacts != 2 || !slices.Equal(out.Missing, []string{"artefact/b"}) {
		t.Fatalf("without one: %+v, %v", out, err)
	}
	must(Put(t.Context(), from, "artefact/b", []byte("B"))) // other bytes
	if out, err = BackUp(t.Context(), from, to, rootKey, 0); err != nil || !slices.Equal(out.Missing, []string{"artefact/b"}) {
		t.Fatalf("with a damaged one: %+v, %v", out, err)
	}
	must(from.Delete(t.Context(), "artefact/b"))
	putObjects(t, from, "b")
	if out, err = BackUp(t.Context(), from, to, rootKey, 0); err != nil || out.Artefacts != 3 || out.Missing != nil {
		t.Fatalf("%+v, %v", out, err)
	}
	if got := objectNames(t, to); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Error(got)
	}
	must(from.Delete(t.Context(), "artefact/a")) // the target has it
	if out, err = BackUp(t.Context(), from, to, rootKey, 0); err != nil || out.Missing != nil {
		t.Errorf("%+v, %v", out, err)
	}
}

// An artefact goes with the last backup that has it.
func TestArtefactsOfRemovedBackups(t *testing.T) {
	id := func(at time.Time) string {
		u := uuid.Must(uuid.NewV7())
		for i := range 6 {
			u[i] = byte(at.UnixMilli() >> (40 - 8*i))
		}
		return u.String()
	}
	begin := time.UnixMilli(1_700_000_000_000)
	m, index := fsm.New(), uint64(0)
	apply := func(muts ...*fsmpb.Mutation) {
		index++
		for i, r := range m.Apply(index, 1, &fsmpb.Batch{NowMs: begin.UnixMilli() + int64(index), Mutations: muts}) {
			if r.Code != fsm.OK {
				t.Fatal(i, r.Code)
			}
		}
	}
	apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{Node: "n", Epoch: 1, Lineage: "l", Cluster: "c"}}})
	from, to := mem.New(), mem.New()
	day := func(n int) time.Time { return begin.Add(time.Duration(n) * 24 * time.Hour) }
	var ids []string
	for n := range 8 {
		one := id(day(n))
		ids = append(ids, one)
		putObjects(t, from, one)
		sum := sha256.Sum256([]byte(one))
		apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_ReserveArtefact{ReserveArtefact: &fsmpb.ReserveArtefact{
			Id: one, Size: int64(len(one)), Sum: sum[:], UntilMs: begin.UnixMilli() + 1e6,
		}}})
		apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{
			Jobs: []*fsmpb.NewJob{{Id: one, Artefacts: []*fsmpb.NamedArtefact{{Name: "x", Id: one}}}},
		}}})
		if n > 0 && n != 1 { // the job of the first day stays
			apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: &fsmpb.Change{Kind: uint32(fsm.DeleteJobs), Ids: []string{ids[n-1]}}}})
		}
		rewriteState(t, from, m, day(n).UnixMilli())
		if _, err := BackUp(t.Context(), from, to, rootKey, 3*24*time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	all, err := Backups(t.Context(), to)
	must(err)
	if len(all) != 5 { // of day 3 to 7: the newest one was that of day 6
		t.Fatal(all)
	}
	want := append([]string{ids[0]}, ids[2:]...) // the first one's job is there, and that of day 2 is within a day
	slices.Sort(want)
	if got := objectNames(t, to); !slices.Equal(got, want) {
		t.Errorf("there are %v\nwant %v", got, want)
	}
	for _, b := range all {
		r, err := Verify(t.Context(), to, b.Key())
		if err != nil || !r.OK() {
			t.Errorf("%s: %+v, %v", b.Key(), r, err)
		}
	}
}

func TestBackupKeys(t *testing.T) {
	b := Backup{"l", fsm.LSN{Term: 2, Index: 9}, 1706000000030}
	key := "backup/l/00000000000000000002-00000000000000000009~1706000000030.json"
	if got, ok := parseBackup(b.Key()); !ok || got != b || b.Key() != key {
		t.Errorf("%s is %v, %v", b.Key(), got, ok)
	}
	for _, other := range []string{"", "queue.json", "backup/l/2-9~1.json", "backup/" + key, key + "x", strings.Replace(key, "~", "~0", 1)} {
		if IsBackup(other) {
			t.Errorf("%q is a backup", other)
		}
	}
	if bytes.Compare([]byte(key), []byte(Backup{"l", fsm.LSN{Term: 2, Index: 10}, 0}.Key())) >= 0 {
		t.Error("the keys are not in order")
	}
}
