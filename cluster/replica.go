package cluster

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/cluster/flush"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage/archive"
)

// replica is raft's view of the machine: a thin adapter that serialises
// access. Apply runs on raft's goroutine, readers on theirs.
type replica struct {
	fatal    func(error)                     // ends the node; it must not go on applying
	changed  func(m *fsm.Machine, idle bool) // told of each entry, and whether it only kept idle workers registered, under the lock: must be quick
	restored func(*fsm.Machine)              // told of a new state, under the lock
	journal  *flush.Journal                  // of what is applied
	sums     *stateSums                      // told of what is applied
	mu       sync.RWMutex                    // guards all below
	machine  *fsm.Machine                    //
	view     *fsm.View                       // of the machine as it is, or nil
	broken   error                           // set by an entry that could not be applied
	waiters  map[*waiter]fsm.LSN             // for an LSN to be applied
	since    time.Time                       // when the newest entry was applied, or the state began
}

type waiter struct{ done chan struct{} }

func newReplica(journal *flush.Journal, fatal func(error)) *replica {
	return &replica{
		fatal:    fatal,
		changed:  func(*fsm.Machine, bool) {},
		restored: func(*fsm.Machine) {},
		journal:  journal,
		sums:     newStateSums(),
		machine:  fsm.New(),
		waiters:  make(map[*waiter]fsm.LSN),
		since:    time.Now(),
	}
}

// applied is the response of a log entry.
type applied struct {
	results []fsm.Result
	lsn     fsm.LSN
	err     error
}

// Apply implements raft.FSM.
func (r *replica) Apply(l *raft.Log) any { return r.apply(l) }

// ApplyBatch implements raft.BatchingFSM. Readers get in between the entries.
func (r *replica) ApplyBatch(logs []*raft.Log) []any {
	answers := make([]any, len(logs))
	for i, l := range logs {
		if l.Type == raft.LogCommand {
			answers[i] = r.apply(l)
		}
	}
	return answers
}

func (r *replica) apply(l *raft.Log) *applied {
	batch, err := fsm.DecodeEntry(l.Data)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken == nil && err != nil {
		r.broken = fmt.Errorf("log entry %d of term %d: %w", l.Index, l.Term, err)
		r.fatal(r.broken)
	}
	if r.broken != nil {
		return &applied{err: r.broken}
	}
	results := r.machine.Apply(l.Index, l.Term, batch)
	r.since = time.Now()
	r.view = nil
	r.changed(r.machine, isKeepalive(batch) && len(r.machine.Events()) == 0)
	r.sums.applied(batch, r.freezeLocked)
	lsn := r.machine.Meta().LSN
	r.record(batch, archive.Entry{LSN: lsn, At: r.machine.Meta().Now, Data: l.Data})
	r.wakeLocked(lsn)
	return &applied{results: results, lsn: lsn}
}

// fail ends the node: it applies nothing more, and makes no snapshot.
func (r *replica) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken == nil {
		r.broken = err
		r.fatal(err)
	}
}

// isKeepalive reports whether an entry is made of keepalives of workers without jobs, and
// of checks of the state.
func isKeepalive(b *fsmpb.Batch) bool {
	for _, m := range b.Mutations {
		if m.GetCheckState() != nil || m.GetStateChecked() != nil {
			continue
		}
		if h := m.GetHeartbeat(); h == nil || len(h.Leases) > 0 {
			return false
		}
	}
	return len(b.Mutations) > 0
}

// record keeps an entry until it is certain to be in the bucket.
func (r *replica) record(b *fsmpb.Batch, e archive.Entry) {
	r.journal.Append(e)
	if b.FlushedIndex != 0 {
		flushed := fsm.LSN{Term: b.FlushedTerm, Index: b.FlushedIndex}
		r.journal.Flushed(flushed)
		r.journal.Trim(flushed)
	}
}

// Snapshot implements raft.FSM. It blocks Apply for microseconds. Raft goes on
// counting entries that the machine could not apply, so a snapshot made after one
// would hide that they are missing.
func (r *replica) Snapshot() (raft.FSMSnapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken != nil {
		return nil, fmt.Errorf("make no snapshot of a state that lacks an entry: %w", r.broken)
	}
	return frozen{r.freezeLocked()}, nil
}

// Restore implements raft.FSM: the new state is read and checked in full
// before it replaces the old one.
func (r *replica) Restore(rc io.ReadCloser) error {
	defer rc.Close()
	m, err := fsm.Decode(rc)
	if err == nil {
		err = checkRestored(rc, m.Meta().LSN)
	}
	if errors.Is(err, fsm.ErrLevel) {
		r.fatal(err)
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.machine, r.view, r.broken = m, nil, nil
	r.since = time.Now()
	r.sums.restored()
	r.journal.Reset(m.Meta().LSN)
	r.restored(m)
	r.wakeLocked(m.Meta().LSN)
	return nil
}

// freeze returns the state as of now. Callers between two entries share one
// view.
func (r *replica) freeze() *fsm.View {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.freezeLocked()
}

func (r *replica) freezeLocked() *fsm.View {
	if r.view == nil {
		r.view = r.machine.View()
	}
	return r.view
}

// read runs fn on the live machine. fn must not keep or change it.
func (r *replica) read(fn func(*fsm.Machine)) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	fn(r.machine)
}

// idle returns how long the newest entry has been applied for.
func (r *replica) idle() time.Duration {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return time.Since(r.since)
}

func (r *replica) meta() (meta fsm.Meta) {
	r.read(func(m *fsm.Machine) { meta = m.Meta() })
	return meta
}

// reached returns a channel that is closed once lsn is applied, and a function
// that gives up waiting.
func (r *replica) reached(lsn fsm.LSN) (done <-chan struct{}, forget func()) {
	w := &waiter{done: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.machine.Meta().LSN.Compare(lsn) >= 0 {
		close(w.done)
		return w.done, func() {}
	}
	r.waiters[w] = lsn
	return w.done, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.waiters, w)
	}
}

func (r *replica) wakeLocked(now fsm.LSN) {
	for w, lsn := range r.waiters {
		if now.Compare(lsn) >= 0 {
			close(w.done)
			delete(r.waiters, w)
		}
	}
}

// frozen is a snapshot on its way to disk, beside later Applies.
type frozen struct{ view *fsm.View }

// Persist implements raft.FSMSnapshot.
func (f frozen) Persist(sink raft.SnapshotSink) error {
	err := checkPersisted(sink, f.view.LSN())
	if err == nil {
		err = f.view.Encode(sink)
	}
	if err != nil {
		_ = sink.Cancel() // the snapshot is thrown away; err says why
		return err
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot.
func (frozen) Release() {}
