package core

import (
	"context"
	"time"

	"osqueue/cluster"
	"osqueue/cluster/notify"
	"osqueue/cluster/past"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// Backend is the node behind the server. All methods are safe for concurrent use.
type Backend interface {
	Writer
	Node
}

var _ Backend = (*cluster.Node)(nil)

// Writer commits mutations. Only the active leader can. When Propose returns, a majority has
// the mutation in its log. Errors are those of package cluster: after ErrUnknown it is unknown
// whether the mutation was committed; after all others, including those of ctx alone, it was
// not.
type Writer interface {
	// Propose commits one mutation.
	Propose(ctx context.Context, m *fsmpb.Mutation) (fsm.Result, fsm.LSN, error)
	// ProposeWithin commits mutations in one entry, in order. After limit it ends as if ctx had
	// ended. The mutations may still be read after the call.
	ProposeWithin(ctx context.Context, ms []*fsmpb.Mutation, limit time.Duration) ([]fsm.Result, fsm.LSN, error)
	// AwaitClaim waits for a job with a claim: it commits the claim in the entry that makes
	// a job available, or returns when the caller should propose the claim. It ends when
	// until is closed; if the claim is in an entry then, AwaitClaim waits for the outcome.
	// Errors are those of Propose.
	AwaitClaim(ctx context.Context, until <-chan struct{}, claim *fsmpb.Mutation) (cluster.Awaited, error)
}

// Node is what a server knows of its node without writing.
type Node interface {
	// Refusal returns the error that any write would get now. It returns nil if the node
	// accepts writes or does not lead.
	Refusal() error
	// Now returns the leader's clock, in ms.
	Now() int64

	// Ready reports whether a claim of these types would find a job now. No type means any.
	Ready(worker string, types []string) bool
	// Remembers reports whether the answer to that claim is stored, so that the same request
	// would get it again.
	Remembers(worker, requestID string) bool

	// The rest reads the state that this node has applied.

	// Linearize returns once that state has every write that was answered
	// before the call. Only the active leader can.
	Linearize(ctx context.Context) error
	// WaitApplied returns once this node has applied lsn.
	WaitApplied(ctx context.Context, lsn fsm.LSN) error
	// WaitEnded returns nil when the job with that id has ended, or is not in
	// this node's state, and an error when ctx ends or the node does.
	WaitEnded(ctx context.Context, id string) error
	// Job returns the job with that id, or nil.
	Job(id string) *fsm.Job
	// Token returns the token with that id, or nil.
	Token(id string) *fsm.Token
	// TokensEnded returns a channel that is closed when this node's state loses a token.
	TokensEnded() <-chan struct{}
	// AccountUsage returns how many jobs of an account (auth.Principal.Account) have not ended,
	// and the bytes of their payloads.
	AccountUsage(name string) (jobs, bytes int64)
	// View freezes the state.
	View() *fsm.View
	// TypeStats returns the figures of one type.
	TypeStats(name string) fsm.TypeStats
	// AllTypeStats returns the figures of every type that has jobs.
	AllTypeStats() map[string]fsm.TypeStats
	// LimitUse returns the use of a limit by key, and LimitUses that of up to n, in the order of names, from one on.
	LimitUse(name string) fsm.LimitUse
	LimitUses(from string, n int) []fsm.LimitUse
	// Events returns the history of the entries that this node has applied.
	Events() *notify.History
	// ProgressOf returns the progress that a job has reported since this node's start,
	// oldest first.
	ProgressOf(id string) []notify.ProgressPoint
	// ActionsOn returns the changes of a job that requests made since this node's start,
	// oldest first.
	ActionsOn(id string) []notify.Action
	// Document returns the jobs in the fields of queue.json that legacy clients know, and a header.
	Document(ctx context.Context) ([]byte, error)

	// WaitFlushed returns nil once the document in the bucket has every entry up
	// to lsn, the error of ctx, or cluster.ErrNotLeader: only the active leader
	// knows.
	WaitFlushed(ctx context.Context, lsn fsm.LSN) error

	Status() cluster.Status
	// Leader returns the host:port of the active leader's HTTP API, or "" if none is known.
	// self reports whether it is this node.
	Leader() (address string, self bool)
}

// Past rebuilds earlier states from the bucket. Errors are those of package past.
type Past interface {
	At(ctx context.Context, t past.Target) (*past.State, error)
	Spans(ctx context.Context) ([]past.Span, error)
}
