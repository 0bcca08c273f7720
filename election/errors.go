package election

import (
	"errors"
	"fmt"
)

var (
	// ErrConflict is wrapped by Acquire when somebody else changed the document
	// since it was observed: read it again and decide afresh.
	ErrConflict = errors.New("somebody else changed the document first")
	// ErrOlderState is wrapped when a state is to be written that lies before
	// one that is, or may be, in the document.
	ErrOlderState = errors.New("the state is older than the document")
	// ErrUnknown is wrapped when a write may or may not have been applied, and
	// may still be, and there was no time to find out.
	ErrUnknown = errors.New("the outcome of the write is not known")
	// ErrUnreadable is wrapped for a document that is there and is not what it
	// should be. Nothing writes over it: repair it, or move it away.
	ErrUnreadable = errors.New("the document cannot be read")
)

// FencedError says that the document belongs to another broker now. It is
// final: the fence that returned it never writes again.
type FencedError struct {
	Epoch   uint64 // of the other broker; 0 for one that has no epochs
	Node    string // "" for a broker that has no header
	Cluster string
	Address string
}

// Error names the other broker.
func (e *FencedError) Error() string {
	if e.Node == "" {
		return fmt.Sprintf("fenced: another broker, %s, has taken over the document", e.Address)
	}
	return fmt.Sprintf("fenced: node %s at %s has taken over the document with epoch %d", e.Node, e.Address, e.Epoch)
}

// ExternalEditError says that somebody changed the document under our epoch.
// Observed is the document as it is now: adopt what is in it, then Rebase the
// fence on it. Doc is nil when the document was removed: there is nothing to
// adopt, and after Rebase the next Write creates it again.
type ExternalEditError struct{ Observed }

// Error says what was found.
func (e *ExternalEditError) Error() string {
	if e.Doc == nil {
		return "the document was removed by somebody else"
	}
	return "the document was changed by somebody else, without a takeover"
}
