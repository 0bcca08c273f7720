package cluster

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/cluster/flush"
	"osqueue/cluster/raftlog"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/sleep"
	"osqueue/storage/archive"
)

// replica adapts the machine to raft.FSM and serialises the access to it. Raft calls
// Apply, Snapshot and Restore; readers call read and freeze from other goroutines.
type replica struct {
	fatal     func(error)                     // ends the node; the replica applies nothing more
	changed   func(m *fsm.Machine, idle bool) // called with each entry, and whether it needs no flush of its own, under the lock: must be quick
	restored  func(*fsm.Machine)              // called with each state that replaces the old one, under the lock
	unflushed *flush.UnflushedLog             // entries that are applied and perhaps not flushed
	sums      *stateSums                      // gets each applied entry
	mu        sync.RWMutex                    // guards the fields below
	machine   *fsm.Machine                    //
	view      *fsm.View                       // view of the present state, or nil
	broken    error                           // error of the entry that could not be applied
	waiters   map[*waiter]fsm.LSN             // each waits for an LSN to be applied
	since     time.Time                       // time when the newest entry was applied, or the state was created
}

type waiter struct{ done chan struct{} }

func newReplica(unflushed *flush.UnflushedLog, fatal func(error)) *replica {
	return &replica{
		fatal:     fatal,
		changed:   func(*fsm.Machine, bool) {},
		restored:  func(*fsm.Machine) {},
		unflushed: unflushed,
		sums:      newStateSums(),
		machine:   fsm.New(),
		waiters:   make(map[*waiter]fsm.LSN),
		since:     time.Now(),
	}
}

// applied is the response to a log entry.
type applied struct {
	results []fsm.Result
	lsn     fsm.LSN
	err     error
}

// Apply implements raft.FSM.
func (r *replica) Apply(l *raft.Log) any { return r.apply(l) }

// ApplyBatch implements raft.BatchingFSM. It releases the lock between the entries, so
// that readers can run.
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
	lsn, now := r.machine.LSN(), r.machine.Now()
	r.record(batch, archive.Entry{LSN: lsn, At: now, Data: l.Data})
	r.wakeLocked(lsn)
	return &applied{results: results, lsn: lsn}
}

// fail ends the node. The replica applies nothing more and makes no snapshot.
func (r *replica) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken == nil {
		r.broken = err
		r.fatal(err)
	}
}

// isKeepalive reports whether an entry contains only keepalives of workers without jobs,
// and checks of the state.
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

// record adds an entry to the unflushed log, and trims the log up to the LSN that the
// leader says is flushed.
func (r *replica) record(b *fsmpb.Batch, e archive.Entry) {
	r.unflushed.Append(e)
	if b.FlushedIndex != 0 {
		flushed := fsm.LSN{Term: b.FlushedTerm, Index: b.FlushedIndex}
		r.unflushed.Flushed(flushed)
		r.unflushed.Trim(flushed)
	}
}

// Snapshot implements raft.FSM. It blocks Apply for microseconds. It fails after an entry
// that the machine could not apply: raft still counts such an entry as applied, and a
// snapshot would hide that it is missing.
func (r *replica) Snapshot() (raft.FSMSnapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken != nil {
		return nil, fmt.Errorf("no snapshot is written, because the state lacks an entry: %w", r.broken)
	}
	return frozen{r.freezeLocked()}, nil
}

// Restore implements raft.FSM. It reads and checks the whole new state before it replaces
// the old one.
func (r *replica) Restore(rc io.ReadCloser) error {
	defer rc.Close()
	m, err := fsm.Decode(rc)
	if err == nil {
		err = raftlog.CheckIndex(rc, m.LSN())
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
	r.unflushed.Reset(m.LSN())
	r.restored(m)
	r.wakeLocked(m.LSN())
	return nil
}

// freeze returns a view of the present state. Calls without an entry in between return
// the same view.
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

// read calls fn with the live machine, under the read lock. fn must not keep the machine
// or change it.
func (r *replica) read(fn func(*fsm.Machine)) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	fn(r.machine)
}

// idle returns how long ago the newest entry was applied.
func (r *replica) idle() time.Duration {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return time.Since(r.since)
}

func (r *replica) meta() (meta *fsm.Meta) {
	r.read(func(m *fsm.Machine) { meta = m.Meta() })
	return meta
}

// reached returns a channel that is closed once lsn is applied. The caller must call
// forget when it no longer waits.
func (r *replica) reached(lsn fsm.LSN) (done <-chan struct{}, forget func()) {
	w := &waiter{done: make(chan struct{})}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.machine.LSN().Compare(lsn) >= 0 {
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

// frozen is a view that raft writes to a snapshot while Apply continues.
type frozen struct{ view *fsm.View }

// Persist implements raft.FSMSnapshot.
func (f frozen) Persist(sink raft.SnapshotSink) error {
	err := raftlog.CheckIndex(sink, f.view.LSN())
	if err == nil {
		err = f.view.Encode(sleep.NewWriter(sink))
	}
	if err != nil {
		_ = sink.Cancel() // cancels the snapshot; err says why
		return err
	}
	return sink.Close()
}

// Release implements raft.FSMSnapshot.
func (frozen) Release() {}
