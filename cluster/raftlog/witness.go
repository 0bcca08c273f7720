package raftlog

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/internal/host"
)

// Raft starts from any log that it finds, also if the log was deleted or replaced by an
// older copy. The node would then vote for candidates that lack entries which it has
// confirmed, and committed jobs would be lost. So the witness, a file next to the
// identity, records a term, a vote and an entry that the log has. A node whose log has
// less does not start.
//
// The witness never claims more than is durable in the log: saveOften, in its own goroutine,
// writes the file after the log was written, at most once a second for entries, and when the node
// is closed. So after a kill it can lack the entries of the last second: a log that has lost no more
// than these is not recognised (docs/operations/recovery.md). A witness of every entry would take an fsync
// of its own, because the log writes each entry with one. Terms and votes are written at once.
// Before raft removes the end of its log, lowerLocked reduces the claim.

const witnessName = "witness.json"

// WitnessInterval is the least time between two writes of the witness for entries.
const WitnessInterval = time.Second

// Witnessed is a claim about the content of a raft log.
type Witnessed struct {
	Server   raft.ServerID `json:"server"`
	Term     uint64        `json:"term"`
	VoteTerm uint64        `json:"voteTerm"`
	Index    uint64        `json:"index"` // of the newest entry
}

func (w Witnessed) String() string {
	return fmt.Sprintf("term %d, vote in term %d, entry %d", w.Term, w.VoteTerm, w.Index)
}

// loadWitness returns the witness in a data directory whose node does not run. It also removes what a
// killed process left.
func loadWitness(data string) (w Witnessed, err error) {
	if err := host.RemoveLeftovers(filepath.Join(data, witnessName)); err != nil {
		return w, err
	}
	return ReadWitness(data)
}

// ReadWitness returns the witness in a data directory, whose node may run.
func ReadWitness(data string) (w Witnessed, err error) {
	path := filepath.Join(data, witnessName)
	content, err := os.ReadFile(path)
	if err == nil {
		w, err = decodeWitness(content)
	}
	if err != nil {
		return w, fmt.Errorf("read %s: %w", path, err)
	}
	return w, nil
}

// WriteWitness replaces the witness in a data directory, durably.
func WriteWitness(data string, w Witnessed) error {
	content, err := w.encode()
	if err == nil {
		err = host.WriteFile(filepath.Join(data, witnessName), string(content))
	}
	if err != nil {
		return fmt.Errorf("write the witness of the raft log: %w", err)
	}
	return nil
}

// decodeWitness decodes the content of a witness file.
func decodeWitness(data []byte) (w Witnessed, err error) {
	err = json.Unmarshal(data, &w)
	return w, err
}

// encode returns the content of a witness file.
func (w Witnessed) encode() ([]byte, error) {
	data, err := json.Marshal(w)
	return append(data, '\n'), err
}

// witness is the state of the witness of a Log.
type witness struct {
	kept   bool      // there is a witness
	known  Witnessed // content of the file
	saving bool      // the file is being written, which does not delay an append
}

// Witness compares the log of a data directory with its witness, which Run maintains from then on.
// It returns an error if there is no witness, or if the log has less than the witness claims. Call it
// before raft starts.
func (l *Log) Witness(server raft.ServerID, dir string) error {
	has, err := l.content(server)
	if err != nil {
		return err
	}
	said, err := l.disk.LoadWitness()
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", err, lostError(dir))
	case said.Server != server:
		return fmt.Errorf("the raft log belongs to %s, and this node is %s: %w", said.Server, server, lostError(dir))
	case has.Term < said.Term || has.VoteTerm < said.VoteTerm || max(has.Index, l.newestSnapshot().index) < said.Index:
		return fmt.Errorf("the raft log has less than this node has confirmed to the other nodes (the log has %s; "+
			"confirmed are %s): it was deleted, or replaced by an older copy: %w", has, said, lostError(dir))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.durable, l.witness = has, witness{kept: true, known: said}
	return nil
}

// lostError returns the advice for a log that is not the one that the node wrote.
func lostError(dir string) error {
	return fmt.Errorf("this node must not vote with this log: delete its data directory %s and start it again; it "+
		"joins as a new node and gets its state from the others, or from the bucket if it is the only "+
		"node", dir)
}

// content returns the present content of the log, in the form of the witness.
func (l *Log) content(server raft.ServerID) (w Witnessed, err error) {
	w.Server = server
	if w.Index, err = l.LastIndex(); err != nil {
		return w, fmt.Errorf("read the raft log: %w", err)
	}
	for key, into := range map[string]*uint64{keyTerm: &w.Term, keyVoteTerm: &w.VoteTerm} {
		if *into, err = l.GetUint64([]byte(key)); err != nil && !notFound(err) {
			return w, fmt.Errorf("read raft's votes: %w", err)
		}
	}
	return w, nil
}

// votedLocked records that a term, or the term of a vote, is durable.
func (l *Log) votedLocked(key string, term uint64) {
	switch key {
	case keyTerm:
		l.durable.Term = term
	case keyVoteTerm:
		l.durable.VoteTerm = term
	}
	select {
	case l.poke <- struct{}{}:
	default:
	}
}

// lowerLocked reduces the claim before the entries from an index on are removed. It writes the
// witness if it claims more, and returns the error of that write.
func (l *Log) lowerLocked(from uint64) error {
	l.durable.Index = min(l.durable.Index, from-1)
	for l.witness.saving { // maybe the claim from before
		l.waitLocked(nil)
	}
	if l.witness.known.Index < from {
		return nil
	}
	return l.saveLocked()
}

// saveLocked writes the witness if it claims something else than what is durable now.
func (l *Log) saveLocked() error {
	for l.witness.saving {
		l.waitLocked(nil)
	}
	now := l.durable
	if !l.witness.kept || now == l.witness.known {
		return nil
	}
	l.witness.saving = true
	err := l.unlocked(func() error { return l.disk.SaveWitness(now) })
	l.witness.saving = false
	l.signalLocked()
	if err == nil {
		l.witness.known = now
	}
	return err
}

// Run watches the disk, and maintains the witness, until stop is closed.
func (l *Log) Run(stop <-chan struct{}) {
	var wg sync.WaitGroup
	defer wg.Wait()
	if l.witness.kept {
		wg.Go(func() { l.saveOften(stop) })
	}
	l.watchdog(stop)
}

// saveOften updates the witness until stop is closed, and then once more.
func (l *Log) saveOften(stop <-chan struct{}) {
	tick := time.NewTicker(WitnessInterval)
	defer tick.Stop()
	failing := false
	for last := false; !last; {
		select {
		case <-stop:
			last = true
		case <-l.poke:
		case <-tick.C:
		}
		l.mu.Lock()
		err := l.saveLocked()
		l.mu.Unlock()
		// A witness that is out of date is harmless: it claims less than is durable.
		if err != nil && !failing {
			l.opts.Logger.Warn("cannot update the witness of the raft log; trying again", "error", err)
		}
		failing = err != nil
	}
}
