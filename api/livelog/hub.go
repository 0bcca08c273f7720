package livelog

import (
	"container/list"
	"errors"
	"slices"
	"sync"
	"time"

	"osqueue/internal/limit"
)

// Config has the bounds of a Hub.
type Config struct {
	JobBytes   int           // of the ring of one job
	TotalBytes int           // of all rings
	Jobs       int           // watched jobs, of which one reader gets half
	Forget     time.Duration // a job is not watched any more when no reader has polled for so long
}

// DefaultConfig returns the bounds that DESIGN.md names.
func DefaultConfig() Config {
	return Config{JobBytes: 64 << 10, TotalBytes: 16 << 20, Jobs: 16_384, Forget: 10 * time.Second}
}

// The errors of Watch.
var (
	ErrFull   = errors.New("too many jobs are watched")
	ErrReader = errors.New("the reader watches too many jobs")
)

// Job is a job. When it was removed, another one may have its id, and other readers.
type Job struct {
	ID      string
	Created int64 // ms
}

// Claim is a claim of a job by a worker. Without a token the job does not run.
type Claim struct {
	Job
	Worker string
	Token  uint64
}

// Position is a place in what the attempts of a job have written: after Offset bytes of the
// attempt with this token. The zero Position is before everything.
type Position struct {
	Token  uint64
	Offset int64
}

// Chunk is a part of what an attempt has written.
type Chunk struct {
	Attempt int32
	Token   uint64
	Offset  int64  // of its first byte
	Bytes   int64  // plain bytes, also if the text is encrypted
	Text    string // "" with Bytes 0 only reports a loss
	Lost    int64  // bytes between the reader's position and this chunk; set by Read
}

// end returns the offset after the chunk.
func (c *Chunk) end() int64 { return c.Offset + c.Bytes }

// chunkCost is the memory of a chunk in addition to its text, in bytes.
const chunkCost = 128

// cost returns the memory of a chunk, in bytes.
func (c *Chunk) cost() int { return len(c.Text) + chunkCost }

// Hub has the rings of the watched jobs. Its methods are safe for concurrent use and do not
// block.
type Hub struct {
	cfg   Config
	now   func() time.Time
	slots *limit.Slots // of watched jobs, by their readers

	mu      sync.Mutex
	jobs    map[Job]*ring
	order   list.List // of *ring, the one that was read least recently first
	heavy   list.List // those of order with chunks
	workers map[string]*workerState
	bytes   int
	armed   bool // a timer will call sweep
}

// ring is a watched job.
type ring struct {
	claim    Claim // that readers saw last
	place    *list.Element
	weight   *list.Element // in Hub.heavy; nil: no chunks
	read     time.Time     // of the last poll
	reader   string        // that polled last, in whose share the job counts
	attempts []attempt     // oldest first
	bytes    int
	more     chan struct{} // closed with the next chunk; nil: no reader waits
}

// attempt has the bytes of one attempt that are held.
type attempt struct {
	token  uint64
	number int32
	end    int64 // also of chunks that were dropped
	chunks []Chunk
}

// attemptsMax bounds the attempts in a ring.
const attemptsMax = 8

// workerState has the watched jobs of a worker.
type workerState struct {
	jobs    map[Job]*ring
	changed chan struct{} // closed when jobs changes
	waiting int           // calls of Changed that were not ended
}

// New returns an empty hub.
func New(cfg Config) *Hub {
	return &Hub{cfg: cfg, now: time.Now, slots: limit.NewSlots(cfg.Jobs, 0), jobs: make(map[Job]*ring), workers: make(map[string]*workerState)}
}

// ReaderJobs returns the number of jobs that one reader may watch.
func (h *Hub) ReaderJobs() int { return h.slots.Each() }

// Watch marks a job as watched for Config.Forget, and lets its worker know. c has the claim that
// runs now. The caller repeats it while the reader waits. It returns ErrFull or ErrReader if too
// many jobs are watched.
func (h *Hub) Watch(c Claim, reader string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.jobs[c.Job]
	if r == nil {
		h.sweepLocked()
		if err := h.slots.Enter(reader); err != nil {
			return refusalOf(err)
		}
		r = &ring{claim: Claim{Job: c.Job}, reader: reader}
		r.place = h.order.PushBack(r)
		h.jobs[c.Job] = r
		h.armLocked()
	}
	if r.reader != reader {
		h.slots.Leave(r.reader)
		if err := h.slots.Enter(reader); err != nil {
			_ = h.slots.Enter(r.reader) // its slot is free
			return refusalOf(err)
		}
		r.reader = reader
	}
	r.read = h.now()
	h.order.MoveToBack(r.place)
	if r.weight != nil {
		h.heavy.MoveToBack(r.weight)
	}
	if r.claim != c {
		h.assignLocked(r, c)
	}
	return nil
}

func refusalOf(err error) error {
	if errors.Is(err, limit.ErrClient) {
		return ErrReader
	}
	return ErrFull
}

// assignLocked moves a job to the worker of a claim.
func (h *Hub) assignLocked(r *ring, c Claim) {
	h.unassignLocked(r)
	r.claim = c
	if c.Token == 0 {
		return
	}
	w := h.workerLocked(c.Worker)
	w.jobs[c.Job] = r
	w.wake()
}

func (h *Hub) unassignLocked(r *ring) {
	if r.claim.Token == 0 {
		return
	}
	w := h.workers[r.claim.Worker]
	delete(w.jobs, r.claim.Job)
	w.wake()
	h.tidyLocked(r.claim.Worker, w)
}

func (h *Hub) workerLocked(name string) *workerState {
	w := h.workers[name]
	if w == nil {
		w = &workerState{jobs: make(map[Job]*ring), changed: make(chan struct{})}
		h.workers[name] = w
	}
	return w
}

// tidyLocked forgets a worker without watched jobs that does not wait.
func (h *Hub) tidyLocked(name string, w *workerState) {
	if len(w.jobs) == 0 && w.waiting == 0 {
		delete(h.workers, name)
	}
}

func (w *workerState) wake() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// Changed returns a channel that is closed when the watched jobs of a worker change. The caller
// then looks at Watched, and calls done when it no longer waits.
func (h *Hub) Changed(worker string) (changed <-chan struct{}, done func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.workerLocked(worker)
	w.waiting++
	return w.changed, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		w.waiting--
		h.tidyLocked(worker, w)
	}
}

// Wanted is a claim whose output is watched, with the offset up to which the hub has it.
type Wanted struct {
	Claim
	Offset int64
}

// Watched returns the watched jobs of a worker, at most limit, the ones that were read last
// first.
func (h *Hub) Watched(worker string, limit int) []Wanted {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.workers[worker]
	if w == nil {
		return nil
	}
	rings := make([]*ring, 0, len(w.jobs))
	deadline := h.now().Add(-h.cfg.Forget)
	for _, r := range w.jobs {
		if r.read.After(deadline) {
			rings = append(rings, r)
		}
	}
	slices.SortFunc(rings, func(a, b *ring) int { return b.read.Compare(a.read) })
	rings = rings[:min(len(rings), limit)]
	out := make([]Wanted, len(rings))
	for i, r := range rings {
		out[i] = Wanted{Claim: r.claim}
		if a := r.last(); a != nil && a.token == r.claim.Token {
			out[i].Offset = a.end
		}
	}
	return out
}

func (r *ring) last() *attempt {
	if len(r.attempts) == 0 {
		return nil
	}
	return &r.attempts[len(r.attempts)-1]
}

// Add adds a chunk to a watched job. A chunk that the hub has, and one of an attempt before the
// newest, changes nothing.
func (h *Hub) Add(j Job, c Chunk) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.jobs[j]
	if r == nil || c.Bytes <= 0 {
		return
	}
	a := r.last()
	switch {
	case a == nil || a.token < c.Token:
		r.attempts = append(r.attempts, attempt{token: c.Token, number: c.Attempt})
		a = r.last()
	case a.token > c.Token || c.end() <= a.end:
		return
	}
	c.Lost = 0
	a.end = c.end()
	a.chunks = append(a.chunks, c)
	h.accountLocked(r, c.cost())
	for len(r.attempts) > attemptsMax {
		h.accountLocked(r, -r.attempts[0].clear())
		r.attempts = slices.Delete(r.attempts, 0, 1)
	}
	for r.bytes > h.cfg.JobBytes {
		h.dropOldestLocked(r)
	}
	for h.bytes > h.cfg.TotalBytes {
		h.emptyLocked(h.heavy.Front().Value.(*ring)) // it has nothing else
	}
	if r.more != nil {
		close(r.more)
		r.more = nil
	}
}

// accountLocked counts n more bytes of a ring.
func (h *Hub) accountLocked(r *ring, n int) {
	r.bytes += n
	h.bytes += n
	switch {
	case r.bytes > 0 && r.weight == nil:
		r.weight = h.heavy.PushBack(r)
	case r.bytes == 0 && r.weight != nil:
		h.heavy.Remove(r.weight)
		r.weight = nil
	}
}

// clear drops all chunks of an attempt and returns what they cost.
func (a *attempt) clear() (cost int) {
	for i := range a.chunks {
		cost += a.chunks[i].cost()
	}
	a.chunks = nil
	return cost
}

// dropOldestLocked drops the oldest chunk of a ring.
func (h *Hub) dropOldestLocked(r *ring) {
	for i := range r.attempts {
		a := &r.attempts[i]
		if len(a.chunks) == 0 {
			continue
		}
		h.accountLocked(r, -a.chunks[0].cost())
		a.chunks[0] = Chunk{}
		a.chunks = a.chunks[1:]
		return
	}
}

// emptyLocked drops all chunks of a ring. The ends of its attempts stay.
func (h *Hub) emptyLocked(r *ring) {
	for i := range r.attempts {
		h.accountLocked(r, -r.attempts[i].clear())
	}
}

// Read returns the chunks after a position, and the position after them. The first chunk of an
// attempt may begin before the position. If there is none, more is closed with the next one;
// it is nil if the job is not watched.
func (h *Hub) Read(j Job, at Position) (chunks []Chunk, next Position, more <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.jobs[j]
	if r == nil {
		return nil, at, nil
	}
	next = at
	for i := range r.attempts {
		a := &r.attempts[i]
		if a.token < next.Token {
			continue
		}
		if a.token > next.Token {
			next = Position{Token: a.token}
		}
		for _, c := range a.chunks {
			if c.end() <= next.Offset {
				continue
			}
			c.Lost = max(c.Offset-next.Offset, 0)
			chunks = append(chunks, c)
			next.Offset = c.end()
		}
		if lost := a.end - next.Offset; lost > 0 { // its chunks were dropped
			chunks = append(chunks, Chunk{Token: a.token, Attempt: a.number, Offset: a.end, Lost: lost})
			next.Offset = a.end
		}
	}
	if len(chunks) > 0 {
		return chunks, next, nil
	}
	if r.more == nil {
		r.more = make(chan struct{})
	}
	return nil, at, r.more
}

// armLocked starts the timer that frees the rings without readers.
func (h *Hub) armLocked() {
	if h.armed {
		return
	}
	h.armed = true
	time.AfterFunc(h.cfg.Forget, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.armed = false
		h.sweepLocked()
		if len(h.jobs) > 0 {
			h.armLocked()
		}
	})
}

// sweepLocked forgets the jobs that no reader has polled for Config.Forget.
func (h *Hub) sweepLocked() {
	deadline := h.now().Add(-h.cfg.Forget)
	for e := h.order.Front(); e != nil; e = h.order.Front() {
		r := e.Value.(*ring) // it has nothing else
		if r.read.After(deadline) {
			return
		}
		h.emptyLocked(r)
		h.unassignLocked(r)
		if r.more != nil {
			close(r.more)
		}
		h.order.Remove(e)
		h.slots.Leave(r.reader)
		delete(h.jobs, r.claim.Job)
	}
}
