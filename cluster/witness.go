package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"osqueue/internal/durable"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// Raft starts from any log that it finds, also if the log was deleted or replaced by an
// older copy. The node would then vote for candidates that lack entries which it has
// confirmed, and committed jobs would be lost. So the witness, a file next to the
// identity, records a term, a vote and an entry that the log has. A node whose log has
// less does not start.
//
// The witness never claims more than is durable in the log: run, in its own goroutine,
// writes the file after the log was written, at most once a second for entries, and when the node
// is closed. So after a kill it can lack the entries of the last second: a log that has lost no more
// than these is not recognised (docs/limits.md). A witness of every entry would take an fsync
// of its own, because the log writes each entry with one. Terms and votes are written at once.
// Before raft removes the end of its log, lower reduces the claim.

const witnessFile = "witness.json"

// witnessInterval is the least time between two writes of the witness for entries.
const witnessInterval = time.Second

// Raft's keys for its term and the term of its last vote.
const (
	keyTerm     = "CurrentTerm"
	keyVoteTerm = "LastVoteTerm"
)

// witnessed is a claim about the content of a raft log.
type witnessed struct {
	Server   raft.ServerID `json:"server"`
	Term     uint64        `json:"term"`
	VoteTerm uint64        `json:"voteTerm"`
	Index    uint64        `json:"index"` // of the newest entry
}

func (w witnessed) String() string {
	return fmt.Sprintf("term %d, vote in term %d, entry %d", w.Term, w.VoteTerm, w.Index)
}

// claims stores the witness of a raft log next to the log. save is durable when it returns.
type claims interface {
	load() (*witnessed, error)
	save(witnessed) error
}

// claimFile is the path of a witness file.
type claimFile string

func (f claimFile) load() (*witnessed, error) {
	if err := durable.RemoveLeftovers(string(f)); err != nil {
		return nil, err
	}
	return readWitness(filepath.Dir(string(f)))
}

func (f claimFile) save(w witnessed) error { return writeWitness(string(f), w) }

// claims returns the witness of the node's raft log.
func (c *Config) claims() claims {
	if c.testEnv != nil {
		return c.testEnv.claims
	}
	return claimFile(filepath.Join(c.DataDir, witnessFile))
}

// witness maintains the claims. Its methods are safe for concurrent use.
type witness struct {
	file claims
	log  hclog.Logger

	term, vote, last atomic.Uint64 // durable in the log
	poke             chan struct{} // signals run that the term or the vote is new; capacity 1

	mu    sync.Mutex // guards the file
	known witnessed  // content of the file
}

// readWitness returns the content of the witness file of a data directory.
func readWitness(dir string) (*witnessed, error) {
	path := filepath.Join(dir, witnessFile)
	data, err := os.ReadFile(path)
	var w witnessed
	if err == nil {
		w, err = decodeWitness(data)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return &w, nil
}

// decodeWitness decodes the content of a witness file.
func decodeWitness(data []byte) (w witnessed, err error) {
	err = json.Unmarshal(data, &w)
	return w, err
}

// encode returns the content of a witness file.
func (w witnessed) encode() ([]byte, error) {
	data, err := json.Marshal(w)
	return append(data, '\n'), err
}

func writeWitness(path string, w witnessed) error {
	data, err := w.encode()
	if err == nil {
		err = durable.WriteFile(path, string(data))
	}
	if err != nil {
		return fmt.Errorf("write the witness of the raft log: %w", err)
	}
	return nil
}

// witnessNew writes the witness of a new server, whose log is empty.
func (c *Config) witnessNew(id raft.ServerID) error {
	return writeWitness(filepath.Join(c.DataDir, witnessFile), witnessed{Server: id})
}

// openWitness compares the log of a data directory with its witness, and begins to
// maintain the witness. It returns an error if there is no witness, or if the log has less than the
// witness claims.
func openWitness(cfg *Config, id raft.ServerID, s *stores) (*witness, error) {
	has, err := s.has(id)
	if err != nil {
		return nil, err
	}
	file := cfg.claims()
	said, err := file.load()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", err, lostError(cfg.DataDir))
	case said.Server != id:
		return nil, fmt.Errorf("the raft log belongs to %s, and this node is %s: %w", said.Server, id, lostError(cfg.DataDir))
	case has.Term < said.Term || has.VoteTerm < said.VoteTerm || max(has.Index, s.snapshotIndex()) < said.Index:
		return nil, fmt.Errorf("the raft log has less than this node has confirmed to the other nodes (the log has %s; "+
			"confirmed are %s): it was deleted, or replaced by an older copy: %w", has, said, lostError(cfg.DataDir))
	}
	w := &witness{file: file, log: cfg.Logger, poke: make(chan struct{}, 1), known: *said}
	w.term.Store(has.Term)
	w.vote.Store(has.VoteTerm)
	w.last.Store(has.Index)
	return w, nil
}

// lostError returns the advice for a log that is not the one that the node wrote.
func lostError(dir string) error {
	return fmt.Errorf("this node must not vote with this log: delete its data directory %s and start it again; it "+
		"joins as a new node and gets its state from the others, or from the bucket if it is the only "+
		"node", dir)
}

// has returns the present content of the log, in the form of the witness.
func (s *stores) has(id raft.ServerID) (w witnessed, err error) {
	w.Server = id
	if w.Index, err = s.log.LastIndex(); err != nil {
		return w, fmt.Errorf("read the raft log: %w", err)
	}
	for key, into := range map[string]*uint64{keyTerm: &w.Term, keyVoteTerm: &w.VoteTerm} {
		if *into, err = s.stable.GetUint64([]byte(key)); err != nil && err.Error() != "not found" { // as raft does
			return w, fmt.Errorf("read raft's votes: %w", err)
		}
	}
	return w, nil
}

// snapshotIndex returns the index of the newest entry in a snapshot on the disk; 0: there
// is none.
func (s *stores) snapshotIndex() (newest uint64) {
	all, err := s.snapshots.List()
	if err != nil {
		return 0 // Prepare has read them all
	}
	for _, m := range all {
		newest = max(newest, m.Index)
	}
	return newest
}

// stored records that the log durably ends with the entry index.
func (w *witness) stored(index uint64) { w.last.Store(index) }

// voted records that a term, or the term of a vote, is durable.
func (w *witness) voted(key string, term uint64) {
	switch key {
	case keyTerm:
		w.term.Store(term)
	case keyVoteTerm:
		w.vote.Store(term)
	default:
		return
	}
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// lower reduces the claim before the entries from an index on are removed. It writes the
// file if it claims more, and returns the error of that write.
func (w *witness) lower(from uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last.Store(min(w.last.Load(), from-1))
	if w.known.Index < from {
		return nil
	}
	return w.writeLocked()
}

func (w *witness) write() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writeLocked()
}

func (w *witness) writeLocked() error {
	now := witnessed{Server: w.known.Server, Term: w.term.Load(), VoteTerm: w.vote.Load(), Index: w.last.Load()}
	if now == w.known {
		return nil
	}
	if err := w.file.save(now); err != nil {
		return err
	}
	w.known = now
	return nil
}

// run updates the file until stop is closed, and then once more.
func (w *witness) run(stop <-chan struct{}) {
	tick := time.NewTicker(witnessInterval)
	defer tick.Stop()
	failing := false
	for last := false; !last; {
		select {
		case <-stop:
			last = true
		case <-w.poke:
		case <-tick.C:
		}
		// A witness that is out of date is harmless: it claims less than is durable.
		switch err := w.write(); {
		case err == nil:
			failing = false
		case !failing:
			w.log.Warn("cannot update the witness of the raft log; trying again", "error", err)
			failing = true
		}
	}
}
