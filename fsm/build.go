package fsm

import (
	"errors"
	"fmt"
)

// ErrState is wrapped when a state that is to be restored contradicts itself.
var ErrState = errors.New("state is not valid")

// Builder makes a machine from a stored state, piece by piece. What it is
// given becomes the machine's own.
type Builder struct {
	m    *Machine
	seqs map[uint64]uint64 // places that are taken: a bit each, 64 to a word
}

// counterMax bounds what a restored state may have counted up to. No queue gets
// there; a counter near its end would start again at zero.
const counterMax = 1<<63 - 1

// Check refuses scalars that only a damaged or doctored state has.
func (m Meta) Check() error {
	if max(m.LastSeq, m.Token, m.TermBase, m.LSN.Term) > counterMax {
		return fmt.Errorf("%w: %w", ErrState, errCounter)
	}
	return nil
}

// NewBuilder starts from the scalars of a state, which have passed Check.
func NewBuilder(meta Meta) *Builder {
	m := New()
	m.meta = meta
	m.meta.Token = max(meta.Token, tokenFloor(meta.Broker.Epoch))
	return &Builder{m: m, seqs: make(map[uint64]uint64)}
}

// AddJob adds a job with all of its members.
func (b *Builder) AddJob(j *Job) error {
	if err := b.checkJob(j); err != nil {
		return fmt.Errorf("%w: job %q: %w", ErrState, j.ID, err)
	}
	b.seqs[j.Seq/64] |= 1 << (j.Seq % 64)
	j.Type = b.m.queue(j.Type).name
	b.m.ids[j.ID] = j
	b.m.index(j)
	return nil
}

var (
	errCounter  = errors.New("a counter has no room left to count in")
	errNoID     = errors.New("it has no id")
	errTwice    = errors.New("the id occurs twice")
	errStatus   = errors.New("the status is not known")
	errSeq      = errors.New("its place in the order is 0, or beyond the last one given")
	errPlace    = errors.New("its place in the order is taken")
	errToken    = errors.New("its token is greater than the last one given")
	errEnd      = errors.New("the end of its last attempt is not known")
	errAttempts = errors.New("its number of attempts is negative")
	errNoLeases = errors.New("it names no leases")
	errOrder    = errors.New("it is not younger than the one before")
)

func (b *Builder) checkJob(j *Job) error {
	m := b.m
	switch {
	case j.ID == "":
		return errNoID
	case m.ids[j.ID] != nil:
		return errTwice
	case j.Status == 0 || j.Status >= numStatuses:
		return errStatus
	case j.Seq == 0 || j.Seq > m.meta.LastSeq:
		return errSeq
	case b.seqs[j.Seq/64]&(1<<(j.Seq%64)) != 0:
		return errPlace
	case j.Token > m.meta.Token:
		return errToken
	case j.AttemptEnd >= numEnds:
		return errEnd
	case j.Attempts < 0:
		return errAttempts
	}
	return nil
}

// AddWorker adds a registered worker.
func (b *Builder) AddWorker(w *Worker) error {
	if _, ok := b.m.workers.Get(w); ok {
		return fmt.Errorf("%w: worker %q: %w", ErrState, w.Name, errTwice)
	}
	b.m.addWorker(w)
	return nil
}

// AddClaim adds a remembered claim. The oldest comes first.
func (b *Builder) AddClaim(r *ClaimRecord) error {
	if err := b.checkClaim(r); err != nil {
		return fmt.Errorf("%w: claim %q of worker %q: %w", ErrState, r.RequestID, r.Worker, err)
	}
	b.m.addClaim(r)
	return nil
}

func (b *Builder) checkClaim(r *ClaimRecord) error {
	if len(r.Leases) == 0 {
		return errNoLeases
	}
	if r.firstToken() > b.m.meta.Token {
		return errToken
	}
	if last, ok := b.m.claims.Max(); ok && r.firstToken() <= last.firstToken() {
		return errOrder
	}
	return nil
}

// Machine returns the machine. The builder is not used afterwards.
func (b *Builder) Machine() *Machine { return b.m }
