package model

import (
	"errors"
	"fmt"

	"osqueue/fsm"
	"osqueue/storage/queuefile"
)

// Documents checks all accepted versions of queue.json, in the order in which
// the bucket accepted them: each is readable and a whole state, and neither
// LSN nor epoch ever goes back, and no LSN stands for two states.
func Documents(versions [][]byte) error {
	if len(versions) == 0 {
		return errors.New("there is no version to check")
	}
	var last *queuefile.Header
	var lastHash [32]byte
	for i, data := range versions {
		doc, err := queuefile.Decode(data)
		if err != nil {
			return fmt.Errorf("version %d of %d: %w", i+1, len(versions), err)
		}
		if doc.Header == nil {
			return fmt.Errorf("version %d of %d has no header", i+1, len(versions))
		}
		m, err := doc.Machine()
		if err != nil {
			return fmt.Errorf("version %d of %d: %w", i+1, len(versions), err)
		}
		if err := follows(last, doc.Header); err != nil {
			return fmt.Errorf("version %d of %d: %w", i+1, len(versions), err)
		}
		hash := m.View().Hash()
		if last != nil && last.LSN() == doc.Header.LSN() && hash != lastHash {
			return fmt.Errorf("versions %d and %d of %d are two states of LSN %s", i, i+1, len(versions), last.LSN())
		}
		last, lastHash = doc.Header, hash
	}
	return nil
}

func follows(last, next *queuefile.Header) error {
	switch {
	case last == nil:
		return nil
	case next.LSN().Compare(last.LSN()) < 0:
		return fmt.Errorf("the LSN goes back from %s to %s", last.LSN(), next.LSN())
	case next.Epoch < last.Epoch:
		return fmt.Errorf("the epoch goes back from %d to %d", last.Epoch, next.Epoch)
	case next.Epoch == last.Epoch && next.Node != last.Node:
		return fmt.Errorf("nodes %s and %s both wrote with epoch %d", last.Node, next.Node, next.Epoch)
	case next.Lineage != last.Lineage:
		return fmt.Errorf("the lineage changes from %s to %s", last.Lineage, next.Lineage)
	}
	return nil
}

// Entry is a command of the raft log.
type Entry struct {
	Index, Term uint64
	Data        []byte
}

// Replay checks that every version is the machine's state at its LSN: it
// applies the log from its beginning and compares hashes.
func Replay(log []Entry, versions [][]byte) (compared int, err error) {
	want, err := hashes(versions)
	if err != nil {
		return 0, err
	}
	m := fsm.New()
	compared += len(want[m.Meta().LSN])
	for _, e := range log {
		batch, err := fsm.DecodeEntry(e.Data)
		if err != nil {
			return compared, fmt.Errorf("log entry %d: %w", e.Index, err)
		}
		m.Apply(e.Index, e.Term, batch)
		lsn := m.Meta().LSN
		for _, h := range want[lsn] {
			if h != m.View().Hash() {
				return compared, fmt.Errorf("the document at LSN %s is not the machine's state there", lsn)
			}
			compared++
		}
		delete(want, lsn)
	}
	delete(want, fsm.LSN{})
	for lsn := range want {
		return compared, fmt.Errorf("a document claims LSN %s, which the log does not have", lsn)
	}
	return compared, nil
}

func hashes(versions [][]byte) (map[fsm.LSN][][32]byte, error) {
	out := make(map[fsm.LSN][][32]byte)
	for i, data := range versions {
		doc, err := queuefile.Decode(data)
		if err != nil {
			return nil, fmt.Errorf("version %d: %w", i+1, err)
		}
		m, err := doc.Machine()
		if err != nil {
			return nil, fmt.Errorf("version %d: %w", i+1, err)
		}
		lsn := doc.Header.LSN()
		out[lsn] = append(out[lsn], m.View().Hash())
	}
	return out, nil
}
