package archive

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"flag"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/document"
	"osqueue/storage/mem"
)

const rootKey = "queue.json"

// counts counts the events in all worlds of a test.
type counts map[string]int

// world is a bucket with its root, the leader that may write it, and leaders
// that were replaced and do not know it.
type world struct {
	ctx     context.Context
	bucket  *mem.Bucket
	root    *document.File
	leader  *leader
	stalled []*leader
	epoch   uint64
	counts  counts
	wild    bool // clocks of leaders have nothing to do with each other
	// chain has the states of the chain up to the root, as checksums by LSN, and the recorded
	// ones of them, with their clocks, in order.
	chain    map[fsm.LSN][sha256.Size]byte
	recorded []place
}

type place struct {
	lsn fsm.LSN
	at  int64
}

// leader is a node that considers itself the active leader.
type leader struct {
	r       *recorder
	arc     *document.Archive // archive of its next root, without the tail; nil: it begins with a checkpoint
	tail    *Tail             // continues from the archive's log
	gap     bool              // the tail lacks entries: a checkpoint has to come next
	root    *document.File    // as it was the last time that it saw it
	written []place           // recorded since then
}

func newWorld(ctx context.Context, now int64) *world {
	r := newRecorder(now)
	r.apply(r.register(1))
	return &world{
		ctx: ctx, bucket: mem.New(), chain: make(map[fsm.LSN][sha256.Size]byte), leader: &leader{r: r}, counts: make(counts),
	}
}

// young lets the leader begin with the log from the first entry on, without a checkpoint.
func (w *world) young() {
	l := w.leader
	l.arc, l.tail = &document.Archive{}, NewTail(fsm.LSN{})
	must(l.tail.Append(l.r.entries...))
	for _, e := range l.r.entries {
		l.written = append(l.written, place{e.LSN, e.At})
	}
}

func (l *leader) here() place {
	m := l.r.m.Meta()
	return place{m.LSN(), m.NowMs}
}

// live lets a leader apply entries. With a gap they are not recorded.
func (l *leader) live(t *rapid.T, n int, gap bool) {
	first := len(l.r.entries)
	l.r.live(t, n)
	if l.arc == nil || gap || l.gap {
		l.gap = l.gap || n > 0
		return
	}
	must(l.tail.Append(l.r.entries[first:]...))
	for _, e := range l.r.entries[first:] {
		l.written = append(l.written, place{e.LSN, e.At})
	}
}

// cut makes a segment of the tail.
func (w *world) cut(l *leader) {
	if l.arc == nil || l.tail.Len() == 0 {
		return
	}
	ref, object := Segment(lineage, l.tail.Frame())
	must(Put(w.ctx, w.bucket, ref.Key, object))
	next := *l.arc
	next.Log = append(slices.Clone(l.arc.Log), ref)
	l.arc, l.tail = &next, NewTail(ref.Last)
}

// compact makes a segment index of all segments except the last.
func (w *world) compact(l *leader) {
	if l.arc == nil || len(l.arc.Log) < 2 {
		return
	}
	refs := l.arc.Log[:len(l.arc.Log)-1]
	if slices.ContainsFunc(refs, func(r document.Ref) bool { return IsSegmentIndex(r.Key) }) {
		return
	}
	w.counts["segment index"]++
	ref, object := SegmentIndex(lineage, refs)
	must(Put(w.ctx, w.bucket, ref.Key, object))
	next := *l.arc
	next.Log = []document.Ref{ref, l.arc.Log[len(l.arc.Log)-1]}
	l.arc = &next
}

// checkpoint writes a checkpoint of the present state.
func (w *world) checkpoint(l *leader) {
	w.cut(l)
	old, prev := l.arc, fsm.LSN{}
	if old != nil {
		if prev = l.tail.Run().After; prev != l.r.lsn() {
			w.counts["gap"]++
		}
		if old.Checkpoint.LSN == l.r.lsn() {
			prev = old.Checkpoint.Prev
		}
	}
	b, err := WriteCheckpoint(w.ctx, w.bucket, lineage, prev, l.r.m.View())
	must(err)
	l.arc = &document.Archive{Checkpoint: b}
	if old != nil {
		l.arc.Kept = Keep(old, &b, window*time.Millisecond)
	}
	l.tail, l.gap = NewTail(b.LSN), false
	l.written = append(l.written, l.here())
}

func (l *leader) archive() *document.Archive {
	a := *l.arc
	a.Tail = l.tail.Frame()
	return &a
}

// flush makes the state of the leader the root, which shows the jobs unless it is bare.
func (w *world) flush(bare bool) {
	l := w.leader
	if l.arc == nil || l.gap {
		w.checkpoint(l)
	}
	v := l.r.m.View()
	l.arc.Kept = Prune(l.arc.Kept, &l.arc.Checkpoint, v.Now()-window)
	c := &document.Content{Archive: l.archive(), Meta: v.Meta(), Counts: v.Counts()}
	if !bare {
		c.Jobs, c.ViewMax = v, document.ViewMax
	}
	must(c.Check())
	w.epoch++
	data := document.Encode(c, document.Header{
		Lineage: lineage, Cluster: "c1", Epoch: w.epoch, Node: "n1", Write: rand.Text(),
	}, "h:8080", l.r.now)
	w.put(data)
	for lsn, sum := range l.r.sums {
		w.chain[lsn] = sum
	}
	for _, p := range l.written {
		if last := len(w.recorded) - 1; last < 0 || p.lsn.Compare(w.recorded[last].lsn) > 0 {
			w.recorded = append(w.recorded, p)
		}
	}
	l.written, l.root = nil, w.root
}

// put replaces the root.
func (w *world) put(data []byte) {
	must(w.bucket.Delete(w.ctx, rootKey))
	must(Put(w.ctx, w.bucket, rootKey, data))
	doc, err := document.Decode(data)
	must(err)
	w.root = doc
}

// succeed makes another node of the cluster the leader. It has all committed entries, and the
// old leader continues to run without knowing of it.
func (w *world) succeed(t *rapid.T) {
	if w.root == nil {
		return
	}
	w.counts["succession"]++
	old := w.leader
	w.stalled = append(w.stalled, old)
	next := &leader{r: old.r.clone(), root: w.root}
	next.r.newTerm()
	w.leader = next
	a := w.root.Archive
	next.carry(a) // the present objects must stay reachable
	if next.gap = a.LSN().Compare(next.r.origin) < 0 || once(t, 4, "without a log"); next.gap {
		return
	}
	rest := next.r.after(a.LSN())
	must(next.tail.Append(rest...))
	for _, e := range rest {
		next.written = append(next.written, place{e.LSN, e.At})
	}
}

// carry continues from the archive of a document.
func (l *leader) carry(a *document.Archive) {
	tail, err := ResumeTail(&a.Tail)
	must(err)
	own := *a
	own.Tail = document.Tail{}
	l.arc, l.tail = &own, tail
}

// adopt lets another cluster begin with the contents of the bucket. Later entries of the old
// cluster are lost, and its leader continues to run without knowing of it.
func (w *world) adopt(t *rapid.T) {
	if w.root == nil {
		return
	}
	m, err := Machine(w.ctx, w.bucket, w.root)
	must(err)
	w.counts["adoption"]++
	terms := w.leader.r.terms
	*terms += rapid.Uint64Range(1, 1<<40).Draw(t, "terms on")
	m.Transplant(m.Meta().Cluster, "", 1, *terms)
	w.stalled = append(w.stalled, w.leader)
	l := &leader{r: newRecorder(m.Now()), root: w.root, gap: true}
	l.r.m, l.r.ids, l.r.term, l.r.terms = m, w.leader.r.ids+1000*len(w.stalled), *terms, terms
	l.r.origin = l.r.lsn()
	l.r.note()
	l.carry(w.root.Archive)
	w.leader = l
}

// window is the retention of the leaders, in ms of the machine's clock.
const window = 400

// before returns the beginning of the window. There is a single wall clock, which all
// leaders follow.
func (w *world) before() time.Time {
	now := w.leader.r.now
	for _, l := range w.stalled {
		now = max(now, l.r.now)
	}
	w.leader.r.now = now
	for _, l := range w.stalled {
		l.r.now = now
	}
	return time.UnixMilli(now - window)
}

// step does something.
func (w *world) step(t *rapid.T) {
	w.before()
	l := w.leader
	some := l
	if len(w.stalled) > 0 && rapid.Bool().Draw(t, "a stalled one") {
		some = pick(t, w.stalled, "stalled")
	}
	switch rapid.IntRange(0, 16).Draw(t, "step") {
	case 0, 1, 2, 3:
		some.live(t, rapid.IntRange(0, 8).Draw(t, "entries"), once(t, 25, "gap"))
	case 4, 5, 6, 7:
		some.live(t, 1, false)
		w.cut(some)
	case 8:
		w.compact(some)
	case 9, 10:
		w.checkpoint(some)
	case 11, 12, 13:
		w.flush(rapid.Bool().Draw(t, "bare"))
	case 14:
		switch rapid.IntRange(0, 3).Draw(t, "change") {
		case 0:
			w.adopt(t)
		case 1:
			w.succeed(t)
		}
	default:
		switch {
		case once(t, 3, "replaced while it collects"):
			w.succeed(t)
			w.collect(t, l)
		case len(w.stalled) > 0 && !once(t, 4, "the leader"): // the interesting ones
			w.collect(t, pick(t, w.stalled, "collector"))
		default:
			w.collect(t, l)
		}
	}
}

func (w *world) collect(t *rapid.T, l *leader) {
	if l.root == nil || l.root.Archive.Checkpoint.Key == "" {
		return
	}
	// It may have thought of this some time ago.
	before := w.before().Add(-time.Duration(rapid.IntRange(0, 500).Draw(t, "late")) * time.Millisecond)
	if w.wild {
		before = before.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "ahead")) * time.Millisecond)
	}
	c := newCollector(w.bucket, l.root, before, rapid.IntRange(1, 12).Draw(t, "most"))
	c.young, c.atOnce = rapid.Int64Range(0, 50).Draw(t, "young"), rapid.IntRange(1, 20).Draw(t, "names in memory")
	most := c.left
	must(c.deleteGarbage(w.ctx))
	deleted := most - c.left
	for _, k := range l.root.Archive.Kept {
		if k.LSN.Compare(c.oldest) > 0 {
			w.counts["kept"]++
		}
	}
	if deleted == 0 {
		return
	}
	if l == w.leader {
		w.counts["collected"]++
	} else {
		w.counts["collected by a stalled leader"]++
	}
}

func (w *world) names() []string {
	var names []string
	must(w.bucket.List(w.ctx, "", func(i storage.Info) bool {
		names = append(names, i.Key)
		return true
	}))
	return names
}

// expected returns the newest recorded state that is not past a target.
func (w *world) expected(to limit) (place, bool) {
	for _, p := range slices.Backward(w.recorded) {
		if p.lsn.Compare(to.lsn) <= 0 && p.at <= to.at {
			return p, true
		}
	}
	return place{}, false
}

// check reads the root, and states throughout the window.
func (w *world) check(t testing.TB, rt *rapid.T) {
	t.Helper()
	if w.root == nil {
		return
	}
	if w.root.Archive.Checkpoint.Key == "" {
		w.counts["young"]++
	}
	m, err := Machine(w.ctx, w.bucket, w.root)
	if err != nil {
		rt.Fatalf("the root cannot be read: %v", err)
	}
	if lsn := w.root.LSN(); m.LSN() != lsn || m.View().Hash() != w.chain[lsn] {
		rt.Fatalf("the root is %s and should be %s, or is another state", m.LSN(), lsn)
	}
	report, err := Verify(w.ctx, w.bucket, rootKey)
	if err != nil || !report.OK() || len(report.Gone) != 0 {
		rt.Fatalf("%+v, %v", report, err)
	}
	if w.wild {
		return
	}
	h, err := Open(w.ctx, w.bucket, rootKey)
	if err != nil {
		rt.Fatal(err)
	}
	if !slices.Equal(h.Spans(), report.Spans) {
		rt.Fatalf("the names tell of %v, the objects of %v", h.Spans(), report.Spans)
	}
	since := w.before().UnixMilli()
	for _, p := range w.recorded {
		if p.at < since || once(rt, 2, "skip") {
			continue
		}
		w.checkAt(rt, h, p.lsn, Target{LSN: p.lsn})
		at := rapid.Int64Range(max(since, p.at-50), p.at+50).Draw(rt, "time")
		to := Target{Time: time.UnixMilli(at)}
		if want, ok := w.expected(to.limit()); ok && at < w.root.Now() {
			w.checkAt(rt, h, want.lsn, to)
		}
	}
}

func (w *world) checkAt(t *rapid.T, h *History, want fsm.LSN, to Target) {
	t.Helper()
	m, err := h.At(w.ctx, to)
	if err != nil {
		t.Fatalf("at %+v, which is %s: %v", to, want, err)
	}
	if to.LSN.IsZero() {
		w.counts["restored by time"]++
	} else {
		w.counts["restored by LSN"]++
	}
	meta := m.Meta()
	c := meta.LSN().Compare(want)
	// What no root has named may be there, too: then more is known of a time.
	if c < 0 || c > 0 && to.Time.IsZero() || !to.Time.IsZero() && meta.NowMs > to.Time.UnixMilli() {
		t.Fatalf("at %+v is %s at %d ms, and should be %s", to, meta.LSN(), meta.NowMs, want)
	}
	if sum, ok := w.chain[meta.LSN()]; !ok || m.View().Hash() != sum {
		t.Fatalf("at %+v is another state than there was at %s", to, meta.LSN())
	}
}

// TestWorld checks that the root, and all states within the window, can be read after any
// sequence of actions by leaders and collectors.
func TestWorld(t *testing.T) {
	t.Parallel()
	counts, missed := make(counts), []string(nil)
	for range 4 { // a hundred worlds may lack a rare case
		rapid.Check(t, func(rt *rapid.T) {
			w := newWorld(t.Context(), 1_700_000_000_000)
			w.counts, w.wild = counts, once(rt, 4, "wild")
			if rapid.Bool().Draw(rt, "young") {
				w.young()
			}
			for range 6 {
				for range rapid.IntRange(0, 14).Draw(rt, "steps") {
					w.step(rt)
				}
				w.check(t, rt)
			}
		})
		missed = slices.DeleteFunc([]string{
			"collected", "collected by a stalled leader", "restored by LSN", "restored by time",
			"gap", "succession", "adoption", "segment index", "kept", "young",
		}, func(what string) bool { return counts[what] > 0 })
		if len(missed) == 0 || fewChecks() || t.Failed() {
			break
		}
	}
	if len(missed) > 0 && !fewChecks() {
		t.Errorf("not once: %q", missed)
	}
	t.Log(counts)
}

// fewChecks reports whether the run has fewer worlds than are needed to see every case.
func fewChecks() bool {
	n, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	return err != nil || n < 50 || testing.Short()
}
