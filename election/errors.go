package election

import (
	"errors"
	"fmt"
)

var (
	// ErrConflict is wrapped by Acquire if the document changed since it was observed:
	// read it and decide again.
	ErrConflict = errors.New("another writer changed the document first")
	// ErrOlderState is wrapped if the state to write is older than a state that is, or
	// may be, in the document.
	ErrOlderState = errors.New("the state is older than the document")
	// ErrUnknown is wrapped if a write may have been applied, or may still be applied,
	// and the context ended before that was certain.
	ErrUnknown = errors.New("the outcome of the write is unknown")
	// ErrUnreadable is wrapped for a document that exists and is not valid. Nothing
	// overwrites it: repair it, or move it away.
	ErrUnreadable = errors.New("the document cannot be read")
)

// FencedError reports that the document belongs to another broker now. It is final: a
// fence that returned it never writes again.
type FencedError struct {
	Epoch   uint64 // of the other broker; 0 for a legacy broker
	Node    string // "" for a broker without a header
	Cluster string
	Address string
}

// Error returns a text with the other broker.
func (e *FencedError) Error() string {
	if e.Node == "" {
		return fmt.Sprintf("fenced: another broker, %s, has taken over the document", e.Address)
	}
	return fmt.Sprintf("fenced: node %s at %s has taken over the document with epoch %d", e.Node, e.Address, e.Epoch)
}
