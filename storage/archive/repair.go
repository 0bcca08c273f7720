package archive

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/document"
)

// Errors of Repair, in addition to those of Verify and ErrMoved.
var (
	// ErrAlive is wrapped if a broker may be writing the document.
	ErrAlive = errors.New("a broker owns the document: stop it, or give --force")
	// ErrNothingGood is wrapped if there is no state to keep. A state that was never used does
	// not count.
	ErrNothingGood = errors.New("no complete state is left in the archive")
	// ErrLegacy is wrapped for a document that only legacy brokers have written.
	ErrLegacy = errors.New("this is a legacy document, which has no history: start a cluster on it, which adopts it")
)

// RepairNode is the node in the header of a document that Repair has written.
const RepairNode = "repair"

// RepairOptions limit a repair. A zero field means its default.
type RepairOptions struct {
	// Force repairs although the document's broker may be alive. If it is, its next write
	// fails.
	Force bool
	// Now is compared with the broker's heartbeat. The default is the current time.
	Now time.Time
	// Timeout is the silence after which a broker counts as dead. The default is 10 s.
	Timeout time.Duration
	// Lineage of the document, in case the document does not say it any more.
	Lineage string
}

func (o *RepairOptions) fill() {
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
}

// Repaired is the result of Repair.
type Repaired struct {
	Before  *Report // the problems before the repair
	Written bool    // a new document is there
	From    fsm.LSN // of the old document, if it is readable
	To      fsm.LSN // of the new one
	Counts  fsm.Counts
	Copy    string // key of the old document's copy; "" if there was no document
	Missing bool   // there was no document
}

// Repair verifies the document. If the document is missing or damaged, or an object that it
// names is, Repair writes a document with the newest complete state, the one that the intact part of the log leads to. The state gets a
// checkpoint of its own, with the intact history before it, up to the first hole. Nothing is
// deleted: Repair first copies the old document to conflicts/, and then replaces it by
// compare-and-swap. Damage of the history only cannot be repaired, and stays until it is
// collected.
//
// Repair refuses a document that a legacy broker has taken over, because a cluster has to adopt
// it, and a document with features that this version does not know.
func Repair(ctx context.Context, bucket storage.Bucket, key string, opts RepairOptions) (*Repaired, error) {
	opts.fill()
	o, err := bucket.Get(ctx, key)
	missing := false
	if errors.Is(err, storage.ErrNotFound) {
		if missing, err = HasArchive(ctx, bucket); err == nil && !missing {
			err = storage.ErrNotFound
		}
	}
	if err != nil {
		return nil, fmt.Errorf("repair %q: %w", key, err)
	}
	r := &repair{bucket: bucket, key: key, opts: opts, old: o, missing: missing}
	if err := r.run(ctx); err != nil {
		return r.result(), fmt.Errorf("repair %q: %w", key, err)
	}
	return r.result(), nil
}

// repair is one repair under way.
type repair struct {
	bucket storage.Bucket
	key    string
	opts   RepairOptions
	old    storage.Object

	missing bool // there is no document

	v     *verifier
	doc   *document.File // the old one, or its replacement
	sure  bool           // the header is the old one's
	m     *fsm.Machine   // the state that is kept
	prev  fsm.LSN        // the prev of its checkpoint
	cut   *document.Tail // is to become a segment; nil: none
	copy  string
	wrote bool
}

func (r *repair) result() *Repaired {
	out := &Repaired{Written: r.wrote, Copy: r.copy, Missing: r.missing}
	if r.v != nil {
		out.Before = r.v.report
	}
	if r.sure && r.doc.Header != nil {
		out.From = r.doc.Header.LSN()
	}
	if r.m != nil {
		out.To, out.Counts = r.m.LSN(), r.m.Counts()
	}
	return out
}

func (r *repair) run(ctx context.Context) error {
	if err := r.look(ctx); err != nil {
		return err
	}
	if r.v.report.Sound() {
		return nil
	}
	if err := r.mayReplace(); err != nil {
		return err
	}
	if err := r.choose(ctx); err != nil {
		return err
	}
	return r.write(ctx)
}

// mayReplace refuses the cases in which an operator must decide first.
func (r *repair) mayReplace() error {
	for _, p := range r.v.report.Problems {
		if errors.Is(p.Err, fsm.ErrEntry) || errors.Is(p.Err, fsm.ErrDiverged) {
			return fmt.Errorf("%w: this state would be lost", p.Err)
		}
	}
	silence := r.opts.Now.Sub(time.UnixMilli(r.doc.BrokerHeartbeat))
	switch {
	case r.missing: // a leader that lives writes the document again, and then ours fails
		return nil
	case r.doc.Header == nil:
		return ErrLegacy
	case r.doc.Overtaken && r.sure:
		return fmt.Errorf("it belongs to the broker %q of another lineage: start a cluster on it, which adopts it", r.doc.BrokerAddress())
	case r.opts.Force:
		return nil
	case !r.sure:
		return fmt.Errorf("%w (the document cannot be read)", ErrAlive)
	case r.doc.Broker != nil && silence < max(r.opts.Timeout, r.doc.Fence().Timeout):
		return fmt.Errorf("%w (%s, whose last heartbeat is %s old)", ErrAlive, r.doc.BrokerAddress(), silence.Round(time.Millisecond))
	}
	return nil
}

// choose selects the state to keep.
func (r *repair) choose(ctx context.Context) error {
	log, p, err := r.v.newest(ctx)
	if err != nil {
		return err
	}
	if log != nil {
		r.m, r.prev = log, log.LSN()
		if a := r.doc.Archive; a != nil && a.Tail.Entries > 0 && r.prev == a.LSN() && p.lsn != a.LSN() {
			r.cut = &a.Tail
		}
	}
	return need(r.m)
}

// need refuses an empty document: no state, a state in which no broker has ever registered, or
// one that has never had a job. The archive of a young queue may have no more than that, and the
// lost data would exist nowhere else.
func need(m *fsm.Machine) error {
	if m == nil || m.Meta().Lineage == "" || unused(m.View()) {
		return ErrNothingGood
	}
	return nil
}

// unused reports whether a state is empty and always was.
func unused(v *fsm.View) bool {
	m, things := v.Meta(), v.HookCount()+v.CronCount()+v.TokenCount()
	v.Queues(func(*fsm.QueueSettings) bool { things++; return false })
	v.Limits(func(*fsm.Limit) bool { things++; return false })
	v.Batches("")(func(*fsm.JobBatch) bool { things++; return false })
	return things == 0 && v.Counts() == fsm.Counts{} && m.LastSeq == 0
}

// newest returns the newest state that the chain leads to, and the checkpoint that it starts
// from.
func (v *verifier) newest(ctx context.Context) (*fsm.Machine, point, error) {
	for {
		best, end, ok := v.chain.farthest()
		if !ok {
			return nil, best, nil
		}
		m, err := readCheckpoint(ctx, v.bucket, best, 0)
		if err := v.object(err); err != nil {
			return nil, best, err
		}
		if m != nil {
			if m, err = v.advance(ctx, m, end); m != nil || err != nil {
				return m, best, err
			}
		}
		v.chain = v.chain.without(v.bad) // without the objects that are bad
	}
}

// farthest returns the checkpoint from which the log reaches the latest LSN, the newest of
// several.
func (l *chain) farthest() (best point, end fsm.LSN, ok bool) {
	for _, p := range slices.Backward(l.checkpoints) {
		if _, to := l.cover(p.lsn, everything.lsn); !ok || to.Compare(end) > 0 {
			best, end, ok = p, to, true
		}
	}
	return best, end, ok
}

// write copies the old document and replaces it.
func (r *repair) write(ctx context.Context) error {
	lineage := r.doc.Lineage()
	if r.cut != nil {
		ref, object := Segment(lineage, *r.cut)
		if err := Put(ctx, r.bucket, ref.Key, object); err != nil {
			return err
		}
	}
	c, err := contentOf(ctx, r.bucket, lineage, r.prev, r.m.View())
	if err != nil {
		return err
	}
	c.Archive.Kept = r.v.chain.kept(c.Archive.Checkpoint.LSN)
	if !r.missing {
		copied := fmt.Sprintf(CopyPrefix+"%s-%s.json", r.doc.LSN(), rand.Text())
		if err := Put(ctx, r.bucket, copied, r.old.Data); err != nil {
			return fmt.Errorf("write a copy of the document: %w", err)
		}
		r.copy = copied
	}
	id := rand.Text()
	data := document.Encode(c, r.header(id), "", r.opts.Now.UnixMilli())
	if err := putRoot(ctx, r.bucket, r.key, r.old.Version, data, id); err != nil {
		return err
	}
	r.wrote = true
	return nil
}

// unknownEpochs is the increment of the epoch if the old epoch is not known. It is larger than
// any plausible number of takeovers that left no entry in the log.
const unknownEpochs = 1 << 10

// header returns a header that continues from the old one, as after a takeover by no broker.
// The write ids of the old document end here: a writer that does not know whether its write
// succeeded must not find its id in a document that may lack the entries of that write.
func (r *repair) header(id string) document.Header {
	m := r.m.Meta()
	h := document.Header{
		Lineage: r.doc.Lineage(), Cluster: m.Cluster, Epoch: m.Epoch + unknownEpochs, Node: RepairNode,
		Write: id, Writes: []string{id},
	}
	if r.sure {
		h.Cluster, h.Epoch = r.doc.Header.Cluster, max(r.doc.Header.Epoch, m.Epoch)+1
		h.Handovers = r.doc.Header.Handovers
	}
	return h
}

// look verifies the document, or the part that can be recovered.
func (r *repair) look(ctx context.Context) error {
	if r.missing {
		w := recovered{}
		err := r.lookBehind(ctx, &w)
		if err == nil {
			r.v.note(r.key, fmt.Errorf("%w: %w", ErrDamaged, storage.ErrNotFound))
		}
		return err
	}
	doc, err := document.Decode(r.old.Data)
	if err == nil {
		r.doc, r.sure, r.v = doc, true, newVerifier(r.bucket, r.key)
		err := r.v.document(ctx, doc)
		return err
	}
	unreadable := fmt.Errorf("%w: %w", ErrDamaged, err)
	w, err := recoverDocument(r.old.Data)
	if err != nil {
		return err
	}
	switch {
	case w.doc != nil:
		r.doc, r.sure, r.v = w.doc, true, newVerifier(r.bucket, r.key)
		err = r.v.document(ctx, w.doc)
	default:
		err = r.lookBehind(ctx, &w)
	}
	if err == nil {
		r.v.note(r.key, unreadable)
	}
	return err
}

// lookBehind uses only the names of objects, back from the newest LSN at which one of them
// ends. If the document still states an LSN, objects after it do not count.
func (r *repair) lookBehind(ctx context.Context, w *recovered) error {
	r.sure = w.header != nil
	last := everything.lsn
	if r.sure {
		last = w.header.LSN()
	} else {
		lineage, err := r.onlyLineage(ctx)
		if err != nil {
			return err
		}
		w.header = &document.Header{Lineage: lineage}
	}
	names, err := List(ctx, r.bucket, w.header.Lineage)
	if err != nil {
		return err
	}
	for _, end := range ends(names, last) {
		r.doc, r.v = w.document(end), newVerifier(r.bucket, r.key)
		m, err := r.v.behind(ctx, r.doc)
		if err != nil || m != nil && m.LSN() == end {
			return err
		}
	}
	return ErrNothingGood
}

// ends returns the LSNs at which complete objects of the chain may end, newest first.
func ends(names []string, last fsm.LSN) []fsm.LSN {
	found := make(map[fsm.LSN]bool)
	for _, key := range names {
		n, ok := parseName(key)
		if ok && (n.kind == segmentKind || n.kind == manifestKind) && n.last.Compare(last) <= 0 {
			found[n.last] = true
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b fsm.LSN) int { return b.Compare(a) })
}

// onlyLineage returns the requested lineage, or the only one in the bucket.
func (r *repair) onlyLineage(ctx context.Context) (string, error) {
	if r.opts.Lineage != "" {
		return r.opts.Lineage, nil
	}
	found := make(map[string]bool)
	err := each(ctx, r.bucket, "", func(i storage.Info) bool {
		_, rest, _ := strings.Cut(i.Key, "/")
		lineage, _, _ := strings.Cut(rest, "/")
		found[lineage] = true
		return true
	})
	if err != nil {
		return "", err
	}
	lineages := slices.Sorted(maps.Keys(found))
	switch len(lineages) {
	case 0:
		return "", ErrNothingGood
	case 1:
		return lineages[0], nil
	}
	return "", &whoseError{lineages}
}

// recovered is the readable part of a document that cannot be read as a whole.
type recovered struct {
	header *document.Header // nil: nothing of it
	broker string
	beat   int64 // ms; 0: not known
	// doc is the document without its damaged part, if that part is trailing data; nil otherwise.
	doc *document.File
}

// errNewer is returned for documents that this version must not change.
var errNewer = errors.New("the document is of a newer version: repair it with the release that wrote it, or a newer one")

// recoverDocument reads as much of a damaged document as it can. The fields that identify the lineage
// come before all long fields.
func recoverDocument(data []byte) (recovered, error) {
	members, whole := topLevel(data)
	var w recovered
	_ = json.Unmarshal(members["broker"], &w.broker) // null, or nothing
	_ = json.Unmarshal(members["brokerHeartbeat"], &w.beat)
	var h headerJSON
	if document.Unmarshal(members["osqueue"], &h) == nil && h.Format > 0 && h.Lineage != "" {
		if h.Format > document.Format || h.Level > fsm.MaxLevel {
			return w, errNewer
		}
		w.header = &document.Header{
			Format: h.Format, Lineage: h.Lineage, Cluster: h.Cluster, Epoch: h.Epoch, Node: h.Node,
			Term: h.Term, Index: h.Index, Write: h.Write, Writes: h.Writes,
		}
	}
	if whole {
		w.doc = assembled(members)
	}
	return w, nil
}

// headerJSON is the part of a header that a repair needs.
type headerJSON struct {
	Format  int      `json:"format"`
	Lineage string   `json:"lineage"`
	Cluster string   `json:"cluster"`
	Epoch   uint64   `json:"epoch"`
	Node    string   `json:"node"`
	Term    uint64   `json:"term"`
	Index   uint64   `json:"index"`
	Write   string   `json:"write"`
	Writes  []string `json:"writes"`
	Level   uint64   `json:"level"`
}

// topLevel returns the fields of an object up to the first damage.
func topLevel(data []byte) (members map[string]jsontext.Value, whole bool) {
	members = make(map[string]jsontext.Value)
	d := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowInvalidUTF8(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return members, false
	}
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err != nil {
			return members, false
		}
		name := t.String()
		v, err := d.ReadValue()
		if err != nil {
			return members, false
		}
		members[name] = v.Clone()
	}
	t, err := d.ReadToken()
	return members, err == nil && t.Kind() == '}'
}

// assembled returns the document of the fields, byte for byte; nil if it is not valid.
func assembled(members map[string]jsontext.Value) *document.File {
	var buf bytes.Buffer
	sep := "{"
	for _, name := range slices.Sorted(maps.Keys(members)) {
		buf.WriteString(sep)
		buf.Write(document.Marshal(name))
		buf.WriteByte(':')
		buf.Write(members[name])
		sep = ","
	}
	buf.WriteByte('}')
	doc, err := document.Decode(buf.Bytes())
	if err != nil || doc.Header == nil {
		return nil
	}
	return doc
}

// document returns a replacement for the unreadable document that says only where the chain
// ends.
func (w *recovered) document(end fsm.LSN) *document.File {
	h := *w.header
	h.Term, h.Index = end.Term, end.Index
	doc := &document.File{Header: &h, BrokerHeartbeat: w.beat}
	if w.broker != "" {
		doc.Broker = &w.broker
	}
	return doc
}

// whoseError is returned if the lineage of a document is not known.
type whoseError struct{ lineages []string }

func (e *whoseError) Error() string {
	return fmt.Sprintf("the lineage of the document cannot be read, and the bucket has %d of them: give --lineage with "+
		"one of %s",
		len(e.lineages), strings.Join(e.lineages, ", "))
}
