package flush

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
)

// DocumentBuilder builds the contents of the document, one after the other, and writes the objects
// that a content names before it returns the content. One goroutine calls Draft and the
// other methods without a concurrency note. A second goroutine, which the builder owns,
// writes a checkpoint.
type DocumentBuilder struct {
	cfg       Config
	bucket    *counting
	lineage   string
	unflushed *UnflushedLog
	view      func() *fsm.View
	wake      atomic.Pointer[func()] // requests a draft when a checkpoint is finished
	renew     atomic.Bool            // a new checkpoint is due whatever the size of the log
	log       hclog.Logger

	last       *document.Content  // the newest draft
	chain      *chain             // nil: none started
	from       fsm.LSN            // end of the previous chain
	step       int                // bytes of entries in the next step of a backlog
	checkpoint *pendingCheckpoint // being written, or nil
	rest       time.Time          // after a failed checkpoint: no new one before this time

	ctx    context.Context // of the goroutine
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// pendingCheckpoint is a checkpoint that the goroutine of writeCheckpoint is writing. The goroutine
// sets checkpoint and err and then closes done; takeCheckpoint reads them after done.
type pendingCheckpoint struct {
	at         fsm.LSN
	done       chan struct{} // closed when checkpoint and err are set
	checkpoint document.Checkpoint
	err        error
}

// NewDocumentBuilder returns a builder that continues from first, the content with which the
// document was acquired. The caller must call Close.
func NewDocumentBuilder(
	cfg Config, bucket storage.Bucket, lineage string, first *document.Content,
	unflushed *UnflushedLog, view func() *fsm.View, log hclog.Logger,
) *DocumentBuilder {
	d := &DocumentBuilder{
		cfg: cfg, bucket: &counting{Bucket: bucket}, lineage: lineage, unflushed: unflushed, view: view, log: log,
		last: first, from: first.LSN(), step: cfg.StepBytes,
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	var err error
	if d.chain, err = resume(first.Archive); err != nil {
		d.log.Error("the tail of the document is damaged; writing a new checkpoint in its place", "error", err)
	}
	return d
}

// Close cancels a checkpoint that is being written, and waits for its goroutine.
func (d *DocumentBuilder) Close() {
	d.cancel()
	d.wg.Wait()
}

// counting is a bucket that counts the objects written through it.
type counting struct {
	storage.Bucket
	objects atomic.Int64
}

// PutIfAbsent implements storage.Bucket.
func (c *counting) PutIfAbsent(ctx context.Context, key string, data []byte) storage.Write {
	c.objects.Add(1)
	return c.Bucket.PutIfAbsent(ctx, key, data)
}

// Objects implements Draft.
func (d *DocumentBuilder) Objects() int { return int(d.bucket.objects.Swap(0)) }

// Notify implements Draft.
func (d *DocumentBuilder) Notify(wake func()) { d.wake.Store(&wake) }

// Renew makes the next draft start a new checkpoint, which replaces everything that the
// document names now, because a part of it is damaged. It is safe for concurrent use.
func (d *DocumentBuilder) Renew() { d.renew.Store(true) }

// Last returns the newest drafted content. To write it again renews the heartbeat.
func (d *DocumentBuilder) Last() *document.Content { return d.last }

// Draft builds the next content. viewed reports whether the last written document shows the
// jobs. behind is true if Draft must be called again before the content is up to
// date. After an error Last is unchanged, and the bucket may have garbage.
func (d *DocumentBuilder) Draft(ctx context.Context, viewed bool) (c *document.Content, behind bool, err error) {
	d.takeCheckpoint()
	v := d.view()
	if d.chain != nil {
		behind, err = d.extend(ctx, v.LSN())
	}
	if d.chain == nil || errors.Is(err, errGap) {
		behind, err = false, d.begin(ctx, v)
	}
	if err != nil {
		return nil, false, err
	}
	if d.chain != nil && !behind {
		d.checkpointIfDue(ctx, v)
		d.compact(ctx)
	}
	d.last = d.content(v, viewed)
	return d.last, behind, nil
}

// content returns a content with state v if the archive reaches it; otherwise the last draft.
func (d *DocumentBuilder) content(v *fsm.View, viewed bool) *document.Content {
	if d.chain == nil || d.chain.checkpoint == nil || d.chain.last() != v.LSN() {
		return d.last
	}
	d.chain.kept = archive.Prune(d.chain.kept, d.chain.checkpoint, v.Now()-d.cfg.Window.Milliseconds())
	return &document.Content{Jobs: v, ViewMax: d.cfg.viewMax(viewed), Meta: v.Meta(), Counts: v.Counts(), Archive: d.chain.archive()}
}

// Wrote implements Draft.
func (d *DocumentBuilder) Wrote(c *document.Content) (kept fsm.LSN) {
	kept = c.LSN()
	if d.chain != nil {
		kept = earlier(kept, d.chain.last())
		d.chain.repeated += int64(len(c.Archive.Tail.Data))
	}
	return kept
}

func earlier(a, b fsm.LSN) fsm.LSN {
	if a.Compare(b) <= 0 {
		return a
	}
	return b
}

var errGap = errors.New("some of the entries since the last flush are not in memory any more")

// extend adds the entries up to upTo to the chain, or a step of them. The tail is bounded by
// TailMax and by the size of a segment of a backlog: while it cannot be sealed, new entries
// wait in the unflushed log.
func (d *DocumentBuilder) extend(ctx context.Context, upTo fsm.LSN) (behind bool, err error) {
	if d.chain.tail.Stored() >= d.cfg.TailMax {
		if err := d.sealTail(ctx); err != nil {
			return false, err
		}
	}
	entries, more, ok := d.unflushed.Range(d.chain.last(), upTo, d.step)
	switch {
	case !ok:
		return false, errGap
	case more || takeBytes(entries, min(d.cfg.TailRaw, d.cfg.SegmentRaw)) < len(entries):
		err := d.extendBy(ctx, entries)
		d.resize(err)
		return more, err
	}
	if err := d.chain.tail.Append(entries...); err != nil {
		return false, err
	}
	size := len(d.chain.tail.Frame().Data) // encodes the tail; before that, Stored is an estimate
	if !d.cfg.sealDue(size, d.chain.repeated) {
		return false, nil
	}
	err = d.sealTail(ctx)
	if err != nil && size < d.cfg.TailMax {
		d.log.Debug("the tail is not sealed yet", "error", err)
		err = nil
	}
	return false, err
}

// resize adapts the steps of a backlog to the bytes that the bucket accepts within the time
// of a draft. A step that is too long would fail again and again.
func (d *DocumentBuilder) resize(err error) {
	if err != nil {
		d.step = max(d.step/2, min(d.cfg.TailMin, d.cfg.StepBytes))
		return
	}
	d.step = min(d.step+d.step/2+1, d.cfg.StepBytes)
}

// extendBy writes a step of a backlog as separate segments.
func (d *DocumentBuilder) extendBy(ctx context.Context, entries []archive.Entry) error {
	tails := []document.Tail{}
	if d.chain.tail.Len() > 0 {
		tails = append(tails, d.chain.tail.Frame())
	}
	after := d.chain.last()
	for len(entries) > 0 {
		n := takeBytes(entries, d.cfg.SegmentRaw)
		t := archive.NewTail(after)
		if err := t.Append(entries[:n]...); err != nil {
			return err
		}
		tails = append(tails, t.Frame())
		after, entries = entries[n-1].LSN, entries[n:]
	}
	return d.seal(ctx, tails)
}

// takeBytes returns the number of entries with at most bytesMax bytes, but at least one.
func takeBytes(entries []archive.Entry, bytesMax int) int {
	n, size := 0, 0
	for ; n < len(entries) && (n == 0 || size+len(entries[n].Data) <= bytesMax); n++ {
		size += len(entries[n].Data)
	}
	return n
}

func (d *DocumentBuilder) sealTail(ctx context.Context) error {
	if d.chain.tail.Len() == 0 {
		return nil
	}
	return d.seal(ctx, []document.Tail{d.chain.tail.Frame()})
}

// putParallel is the number of segments that are written at a time.
const putParallel = 4

// seal writes tails as segments. It changes the chain only when all segments are in the
// bucket.
func (d *DocumentBuilder) seal(ctx context.Context, tails []document.Tail) error {
	refs := make([]document.Ref, len(tails))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(putParallel)
	for i, t := range tails {
		g.Go(func() error {
			ref, data := archive.Segment(d.lineage, t)
			refs[i] = ref
			return archive.Put(ctx, d.bucket, ref.Key, data)
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("write a segment of the log: %w", err)
	}
	d.chain.seal(refs...)
	return nil
}

// compact replaces many segments by a segment index. If it fails, the next document tries again.
func (d *DocumentBuilder) compact(ctx context.Context) {
	var boundary fsm.LSN
	if d.checkpoint != nil {
		boundary = d.checkpoint.at
	}
	from, to, ok := d.chain.compactable(d.cfg.CompactAt, boundary)
	if !ok {
		return
	}
	ref, data := archive.SegmentIndex(d.lineage, d.chain.refs[from:to])
	if err := archive.Put(ctx, d.bucket, ref.Key, data); err != nil {
		d.log.Debug("the log is not compacted yet", "error", err)
		return
	}
	d.chain.refs = append(append(append([]document.Ref(nil), d.chain.refs[:from]...), ref), d.chain.refs[to:]...)
}

// chain is the archive under construction: the log after a checkpoint, which may itself not
// be in the bucket yet.
type chain struct {
	checkpoint *document.Checkpoint // nil until it is in the bucket; zero for a young queue
	kept       []document.Kept      // earlier checkpoints
	refs       []document.Ref
	tail       *archive.Tail
	repeated   int64 // bytes of the tail in all documents since the last seal
}

// resume continues a document's archive.
func resume(a *document.Archive) (*chain, error) {
	tail, err := archive.ResumeTail(&a.Tail)
	if err != nil {
		return nil, err
	}
	checkpoint := a.Checkpoint
	return &chain{checkpoint: &checkpoint, kept: a.Kept, refs: slices.Clone(a.Log), tail: tail}, nil
}

// begin starts a chain at a state whose checkpoint is not written yet.
func begin(at fsm.LSN) *chain { return &chain{tail: archive.NewTail(at)} }

// last returns the LSN of the last entry in the chain.
func (l *chain) last() fsm.LSN { return l.tail.Run().Last }

// stored returns the size of the log in the bucket, bytes.
func (l *chain) stored() (bytes int64) {
	for i := range l.refs {
		bytes += l.refs[i].Stored
	}
	return bytes
}

// archive returns the archive for a document; nil without a checkpoint.
func (l *chain) archive() *document.Archive {
	if l.checkpoint == nil {
		return nil
	}
	return &document.Archive{Checkpoint: *l.checkpoint, Log: slices.Clone(l.refs), Tail: l.tail.Frame(), Kept: l.kept}
}

// seal replaces the tail by the objects that contain it and the entries after it.
func (l *chain) seal(refs ...document.Ref) {
	l.refs = append(l.refs, refs...)
	l.tail, l.repeated = archive.NewTail(refs[len(refs)-1].Last), 0
}

// rebase replaces the log before a checkpoint by the checkpoint. The log must be sealed
// there. kept are the earlier checkpoints.
func (l *chain) rebase(b *document.Checkpoint, kept []document.Kept) {
	l.checkpoint, l.kept = b, kept
	l.refs = slices.DeleteFunc(l.refs, func(r document.Ref) bool { return r.Last.Compare(b.LSN) <= 0 })
}

// compactable returns a range of refs that a segment index may replace: n consecutive segments
// that do not cross boundary, the LSN of a checkpoint that is being written.
func (l *chain) compactable(n int, boundary fsm.LSN) (from, to int, ok bool) {
	for i := range l.refs {
		r := &l.refs[i]
		if archive.IsSegmentIndex(r.Key) || r.After == boundary {
			from = i
			if archive.IsSegmentIndex(r.Key) {
				from++
			}
		}
		if i+1-from == n {
			return from, i + 1, true
		}
	}
	return 0, 0, false
}

// checkpointRetry is the pause between a failed checkpoint and the next attempt.
const checkpointRetry = 2 * time.Second

// checkpointIfDue starts a checkpoint if the log has outgrown the last one, or if renew is set. The
// chain must end at v.
func (d *DocumentBuilder) checkpointIfDue(ctx context.Context, v *fsm.View) {
	l := d.chain
	if d.checkpoint != nil || l.checkpoint == nil || time.Now().Before(d.rest) ||
		!d.renew.Load() && !d.cfg.checkpointDue(l.checkpoint.Stored, l.stored(), len(l.refs)) {
		return
	}
	if err := d.sealTail(ctx); err != nil {
		d.log.Debug("the checkpoint is deferred", "error", err)
		return
	}
	prev := v.LSN()
	if d.renew.Swap(false) { // what is damaged may be a part of the log
		if prev = l.checkpoint.LSN; prev == v.LSN() {
			prev = l.checkpoint.Prev
		}
	}
	d.writeCheckpoint(v, prev)
}

// begin starts a new chain at v, with a checkpoint that bridges the entries that are missing
// since the previous chain. It first seals the tail of the previous chain, so that it is not
// lost.
func (d *DocumentBuilder) begin(ctx context.Context, v *fsm.View) error {
	if d.checkpoint != nil || time.Now().Before(d.rest) {
		return nil // one checkpoint at a time
	}
	if d.chain != nil {
		if err := d.sealTail(ctx); err != nil {
			return err
		}
		d.from = d.chain.last()
	}
	if d.from != v.LSN() {
		d.log.Warn("wrote a new checkpoint, because the bucket lacks older log entries", "from", d.from, "to", v.LSN())
	}
	d.chain = begin(v.LSN())
	d.writeCheckpoint(v, d.from)
	return nil
}

// writeCheckpoint starts a goroutine that writes a checkpoint of v. The goroutine sets checkpoint and
// err, closes done, and then calls wake so that the flusher drafts again.
func (d *DocumentBuilder) writeCheckpoint(v *fsm.View, prev fsm.LSN) {
	p := &pendingCheckpoint{at: v.LSN(), done: make(chan struct{})}
	d.checkpoint = p
	d.wg.Go(func() {
		p.checkpoint, p.err = archive.WritePacedCheckpoint(d.ctx, d.bucket, d.lineage, prev, v)
		close(p.done)
		if wake := d.wake.Load(); wake != nil {
			(*wake)()
		}
	})
}

// takeCheckpoint adds a finished checkpoint to the chain. It does not wait.
func (d *DocumentBuilder) takeCheckpoint() {
	p := d.checkpoint
	if p == nil {
		return
	}
	select {
	case <-p.done:
	default:
		return
	}
	d.checkpoint = nil
	switch {
	case p.err != nil:
		d.log.Warn("cannot write a checkpoint; trying again", "error", p.err)
		d.rest = time.Now().Add(checkpointRetry)
		d.renew.Store(true)
		if d.chain != nil && d.chain.checkpoint == nil {
			d.chain = nil
		}
	case d.chain != nil:
		d.chain.rebase(&p.checkpoint, archive.Keep(d.last.Archive, &p.checkpoint, d.cfg.Window))
		d.log.Debug("wrote a checkpoint", "lsn", p.checkpoint.LSN, "bytes", p.checkpoint.Stored)
	}
}
