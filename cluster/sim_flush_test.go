package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest"
	"osqueue/internal/storagetest/fault"
	"osqueue/internal/storagetest/script"
	"osqueue/storage"
	"osqueue/storage/archive"
)

// simPastSample is the number of states of which one is restored at the end of a run.
const simPastSample = 100

// past restores one of n states of the present line of history. It returns those that the bucket does not keep, and
// the spans that it says it keeps.
func (w *simWorld) past(n int) (missing []fsm.LSN, spans []archive.Span) {
	ctx := context.Background()
	h, err := archive.Open(ctx, w.store, DocumentKey)
	if err != nil {
		w.failf("the past: %v", err)
		return nil, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, lsn := range w.views {
		s := w.states[lsn]
		if i%n != 0 || s.ledger != w.ledgers["a"] || lsn.Compare(h.Document().LSN()) > 0 {
			continue
		}
		sum, _ := s.sumLocked()
		switch m, err := h.At(ctx, archive.Target{LSN: lsn}); {
		case errors.Is(err, archive.ErrNotKept):
			missing = append(missing, lsn)
		case err != nil:
			w.failLocked("the state at %s: %v", lsn, err)
		case m.LSN() != lsn || m.View().Hash() != sum:
			w.failLocked("the state at %s is restored as another one, of %s", lsn, m.LSN())
		default:
			w.counts.One("check: state of the past")
		}
	}
	return missing, h.Spans()
}

// bounded checks that no object that was to be written exceeds the bounds of the configuration.
func (s *simRun) bounded() {
	cfg := simConfig()
	f := cfg.Flush
	const slack = 8 << 10 // an entry can be longer than a step, and every object has a header
	tail := f.TailMax + f.SegmentRaw + slack
	refs := 400 * (3*f.RefsMax + cfg.UnflushedBytes/f.SegmentRaw)
	s.mu.Lock()
	defer s.mu.Unlock()
	for kind, most := range map[string]int{
		"log": tail, "segment index": 500 * f.CompactAt, DocumentKey: f.ViewMax + tail*4/3 + refs + slack,
	} {
		if got := s.sizes[kind]; got == 0 || got > most {
			s.failLocked("the largest %s that was to be written had %d bytes; at most %d are bounded", kind, got, most)
		}
	}
}

// burst enqueues jobs of so many bytes in all that cannot be compressed, and cancels them. It gives up after a while.
func (s *simRun) burst(bytes int) {
	over := make(chan struct{})
	defer time.AfterFunc(10*time.Second, func() { close(over) }).Stop()
	s.counts.One("burst")
	c := &simClient{simUsers: s.users, name: fmt.Sprint("burst", s.counts.Count("burst")), r: s.rand(), over: over}
	var ids []string
	for ; bytes > 0; bytes -= 1000 {
		payload := make([]byte, 1000)
		for i := range payload {
			payload[i] = byte('0' + c.r.IntN(75))
		}
		payload = fmt.Appendf(nil, "%q", strings.ReplaceAll(string(payload), `\`, "/"))
		j := &fsmpb.NewJob{Id: c.id("j"), Type: "t", Payload: payload}
		s.ask(j.Id)
		c.submit([]*fsmpb.NewJob{j}, func(simAnswer) bool { return false })
		ids = append(ids, j.Id)
	}
	c.do(func() *fsmpb.Mutation { return script.ChangeOf(fsm.CancelJobs, ids...) }) // the workers have enough to do
}

// retune restarts all nodes with another configuration.
func (s *simRun) retune(tune func(*Config)) {
	s.a.tune = tune
	s.crashAll()()
	s.calm()
}

// flushed waits until all that is applied now is in the bucket.
func (s *simRun) flushed(limit time.Duration) (lsn fsm.LSN) {
	lead := s.a.active()
	if lead == nil {
		s.failf("nobody leads")
		return lsn
	}
	lsn = lead.View().LSN()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := lead.WaitFlushed(ctx, lsn); err != nil {
		s.failf("%s is not in the bucket after %v: %v; %s", lsn, limit, err, lead.Status().FlushError)
	}
	return lsn
}

// allKept keeps the whole past, lets a lag pass, and has room for a large backlog.
func allKept(c *Config) { c.Flush.Window, c.MaxFlushLag = time.Hour, time.Hour }

// Only segments or only checkpoints cannot be written: the document is renewed in time, flushes go on, all objects stay
// bounded, and no state since the first document is lost.
func TestSimHalfABucket(t *testing.T) {
	for _, prefix := range []string{"log/", "checkpoint/"} {
		t.Run(strings.Trim(prefix, "/"), func(t *testing.T) {
			simScene(t, 1, func(s *simRun) {
				s.retune(func(c *Config) {
					allKept(c)
					c.UnflushedBytes = 256 << 10
				})
				if key := s.document().Archive.Checkpoint.Key; key != "" {
					s.failf("there is a checkpoint already, %s", key)
				}
				s.mu.Lock()
				s.silence = 0
				s.mu.Unlock()
				away := s.faults.Inject(fault.Rule{Kind: fault.LoseRequest, KeyPrefix: prefix})
				for range 15 {
					s.burst(1500)
					time.Sleep(time.Second)
					if prefix == "checkpoint/" {
						s.flushed(5 * time.Second)
					}
				}
				away.Stop()
				s.flushed(20 * time.Second)
				s.mu.Lock()
				pause := s.silence
				s.mu.Unlock()
				if pause > DefaultConfig().BrokerTimeout-time.Second || away.Hits() < 2 {
					s.failf("no heartbeat for %v, %d operations hit", pause, away.Hits())
				}
				s.await(30*time.Second, simWhile("there is no checkpoint", func() bool { return s.document().Archive.Checkpoint.Key == "" }))
				s.burst(5000)
				s.flushed(10 * time.Second)
				if missing, spans := s.past(4); len(missing) > 0 || len(spans) != 1 {
					s.failf("%d states cannot be restored, the first %v; the spans are %v", len(missing), missing[:min(1, len(missing))], spans)
				}
				if n := len(s.document().Archive.Log); n > s.a.active().cfg.Flush.RefsMax {
					s.failf("the document names %d objects of the log", n)
				}
				s.bounded()
			})
		})
	}
}

// A backlog of an outage is written step by step, and no state of it is lost. If it does not fit into the unflushed log, a
// checkpoint bridges it, and the lost part of the past is reported.
func TestSimOutage(t *testing.T) {
	for name, c := range map[string]struct {
		bytes int
		gap   bool
	}{"within the unflushed log": {40 << 10, false}, "beyond the unflushed log": {120 << 10, true}} {
		t.Run(name, func(t *testing.T) {
			simScene(t, 1, func(s *simRun) {
				s.retune(allKept)
				s.burst(20 << 10)
				before := s.flushed(time.Minute)
				segments := s.counts.Count("segment")
				end := s.inject(fault.Rule{Kind: fault.LoseRequest})
				s.burst(c.bytes)
				time.Sleep(8 * time.Second)
				if end() == "" {
					s.failf("the outage has hit nothing")
				}
				s.flushed(30 * time.Second)
				after := s.document().LSN()
				s.burst(5000)
				last := s.flushed(time.Minute)
				missing, spans := s.past(2)
				if n := len(spans); c.gap != (n > 1) || c.gap != (len(missing) > 0) || n == 0 || spans[n-1].To.Compare(last) < 0 {
					s.failf("%d states cannot be restored; the spans are %v, before the outage it was %s, at the end %s", len(missing), spans, before, last)
				}
				for _, lsn := range missing {
					if lsn.Compare(before) <= 0 || lsn.Compare(after) > 0 {
						s.failf("%s cannot be restored; before the outage it was %s, after it %s", lsn, before, after)
					}
				}
				if n := s.counts.Count("segment") - segments; !c.gap && n < 4 {
					s.failf("the backlog came in %d segments", n)
				}
				s.bounded()
			})
		})
	}
}

// A backlog is written over a line on which a whole step takes longer than the timeout of a write, and not again and again.
func TestSimBacklogOverANarrowLine(t *testing.T) {
	simScene(t, 1, func(s *simRun) {
		s.retune(func(c *Config) {
			allKept(c)
			c.UnflushedBytes = 1 << 20
		})
		s.flushed(time.Minute)
		end := s.inject(fault.Rule{Kind: fault.LoseRequest})
		const backlog = 100 << 10
		s.burst(backlog)
		narrow := s.faults.Inject(fault.Rule{Kind: fault.Slow, KeyPrefix: "log/", Rate: 3000})
		s.mu.Lock()
		s.offered["log"] = 0
		s.mu.Unlock()
		end()
		s.flushed(4 * time.Minute)
		s.mu.Lock()
		defer s.mu.Unlock()
		if n := s.offered["log"]; n < backlog/2 || n > 4*backlog || narrow.Hits() == 0 {
			s.failLocked("a backlog of %d bytes took %d", backlog, n)
		}
	})
}

// A term ends at once while a checkpoint is being written to a bucket that does not answer.
func TestSimEndInTheMiddleOfACheckpoint(t *testing.T) {
	simScene(t, 3, func(s *simRun) {
		stalled := s.faults.Inject(fault.Rule{Kind: fault.Stall, KeyPrefix: "checkpoint/"})
		s.burst(40 << 10)
		s.await(10*time.Second, simWhile("no checkpoint is being written", func() bool { return stalled.Hits() == 0 }))
		old := s.a.active()
		s.transfer()
		s.await(2*time.Second, simWhile("the term goes on", func() bool { return old.leader.Active() != nil }))
		s.await(10*time.Second, s.a.led)
		stalled.Release(context.Background())
	})
}

// Every write of the document fails at once, as on a full bucket, whose reads succeed. The status has the reason with the
// first attempt, and not only when the write has been given up.
func TestSimFirstFailureIsShown(t *testing.T) {
	simScene(t, 1, func(s *simRun) {
		s.flushed(time.Minute)
		lead := s.a.active()
		shows := func(limit time.Duration, failing bool) {
			s.await(limit, simWhile(fmt.Sprintf("failing is not %v", failing), func() bool { return (lead.Status().FlushError != "") != failing }))
		}
		shows(time.Second, false)
		end := s.inject(fault.Rule{Kind: fault.LoseRequest, KeyPrefix: DocumentKey, Ops: []storage.Op{storage.OpPutIfMatch}})
		s.burst(1)
		shows(300*time.Millisecond, true)
		time.Sleep(5 * time.Second)
		shows(20*time.Millisecond, true)
		end()
		shows(3*time.Second, false)
	})
}

// mishap befalls one operation on the bucket, and then nodes.
type mishap struct {
	name  string
	rule  fault.Rule    // a kind, and a delay
	nodes func(*simRun) // nil: none
	loses bool          // the disks
}

func mishaps() []mishap {
	before, after := fault.Rule{Kind: fault.Stall}, fault.Rule{Kind: fault.LoseAnswer, Delay: time.Hour}
	return []mishap{
		{name: "lose-request", rule: fault.Rule{Kind: fault.LoseRequest}},
		{name: "lose-answer", rule: fault.Rule{Kind: fault.LoseAnswer}},
		{name: "deliver-late", rule: fault.Rule{Kind: fault.DeliverLate, Delay: time.Second}},
		{name: "deliver-at-the-end", rule: fault.Rule{Kind: fault.DeliverLate}},
		{name: "throttle", rule: fault.Rule{Kind: fault.Throttle}},
		{name: "reject", rule: fault.Rule{Kind: fault.Reject}},
		{name: "stall", rule: before},
		{name: "all lost before it", rule: before, nodes: (*simRun).loseAll, loses: true},
		{name: "all lost after it", rule: after, nodes: (*simRun).loseAll, loses: true},
		{name: "leader dead before it", rule: before, nodes: (*simRun).killLeader},
		{name: "leader dead after it", rule: after, nodes: (*simRun).killLeader},
	}
}

// simOp is a kind of operation on the bucket.
type simOp struct {
	op     storage.Op
	prefix string // of its key
}

var simOps = []simOp{
	{storage.OpGet, DocumentKey},
	{storage.OpGet, "log/"},
	{storage.OpGet, "checkpoint/"},
	{storage.OpPutIfMatch, DocumentKey},
	{storage.OpPutIfAbsent, "log/"},
	{storage.OpPutIfAbsent, "checkpoint/"},
	{storage.OpList, ""},
	{storage.OpDelete, ""},
}

// at returns the rule of a mishap at an operation, after skip others of its kind. ok is false if it cannot happen to it.
func (m *mishap) at(o simOp, skip int) (r fault.Rule, ok bool) {
	r = m.rule
	r.Ops, r.KeyPrefix, r.Skip, r.Times = []storage.Op{o.op}, o.prefix, skip, 1
	return r, o.op.IsWrite() || !slices.Contains([]fault.Kind{fault.LoseAnswer, fault.DeliverLate, fault.Reject}, r.Kind)
}

func (s *simRun) loseAll() {
	for _, n := range s.a.nodes {
		n.crash()
		n.wipe()
	}
}

// killLeader crashes raft's leader, which may not be active yet.
func (s *simRun) killLeader() {
	for _, l := range s.a.lives() {
		if l.raft.State() == raft.Leader {
			l.place.crash()
		}
	}
}

// strike lets a mishap befall an operation, also while nodes without disks adopt the document, and heals the cluster. What
// is held back arrives after that.
func (s *simRun) strike(m mishap, o simOp, skip int, adopts bool) {
	rule, ok := m.at(o, skip)
	if !ok {
		return
	}
	s.allowAdoption(m.loses || adopts)
	if adopts {
		s.loseAll()
	}
	i := s.faults.Inject(rule)
	s.a.startAll()
	if o == simOps[0] && !adopts {
		s.transfer() // a new leader reads
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if i.WaitHits(ctx, 1) == nil {
		s.trace.printf("STRUCK %s at %v, adopts %v", m.name, o, adopts)
		s.counts.One(fmt.Sprint("struck: ", o))
		time.Sleep(time.Second) // nobody may rely on it meanwhile
		if m.nodes != nil {
			m.nodes(s)
		}
	}
	i.Stop()
	s.calm()
	i.Release(context.Background())
	s.allowAdoption(false)
}

// everyPointEnv makes the mishaps befall each of the first operations of a kind, which takes minutes; the default is two.
const everyPointEnv = "OSQUEUE_EVERY_CRASH_POINT"

// Each mishap befalls each kind of operation, while the queue's document has all forms, and while it is created or adopted.
// The checks of the simulation demand that the document is readable, a state that existed, never goes back, and has all
// that was acknowledged as being in the bucket.
func TestSimEveryOperation(t *testing.T) {
	counts := storagetest.NewCounts()
	points := 2
	if os.Getenv(everyPointEnv) != "" {
		points = 12
	}
	t.Run("mishaps", func(t *testing.T) {
		for i, m := range mishaps() {
			t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
				t.Parallel()
				seed := uint64(5*i + 1)
				var s *simRun
				synctest.Test(t, func(*testing.T) {
					s = newSimRun(seed, 3, counts)
					if rule, ok := m.at(simOp{storage.OpPutIfAbsent, DocumentKey}, 0); ok && m.nodes == nil {
						defer s.faults.Inject(rule).Stop()
					}
					s.use(func() { s.strikeAll(m, points) })
				})
				if f := s.failed(); len(f) > 0 {
					s.report(t, seed, f)
				}
			})
		}
	})
	if t.Failed() {
		return
	}
	all := []string{
		"adoption", "document without jobs", "jobs leave the document", "jobs return", "young document", "segment", "segment index",
		"checkpoint", "check: removed object is not needed", "check: state of the past", "acknowledged as in the bucket",
	}
	for _, o := range simOps {
		all = append(all, fmt.Sprint("struck: ", o))
	}
	counts.Demand(t, all...)
}

// strikeAll plays a mishap in a queue that writes and removes objects of all kinds all the time.
func (s *simRun) strikeAll(m mishap, points int) {
	s.retune(func(c *Config) {
		c.Flush.TailMax, c.Flush.TailMin, c.Flush.CheckpointMin = 1<<10, 128, 2<<10
		c.Flush.ViewMax, c.Flush.Window, c.CollectInterval = 2<<10, time.Second, 2*time.Second
		c.ArchiveCheck, c.ArchiveRead = time.Second, 2*time.Second
	})
	for point := range points {
		for i := range simOps {
			if len(s.failed()) > 0 {
				return
			}
			s.strike(m, simOps[i], point, false)
		}
		s.strike(m, simOp{storage.OpGet, ""}, 2*point, true)
		s.strike(m, simOps[3], 0, true)
	}
}

// operation waits until a random operation is under way, stalled or without its answer. It returns the function that lets
// it go on, or nil if there was none.
func (s *simRun) operation() (release func()) {
	all := mishaps()
	m := all[len(all)-1-s.r.IntN(2)]
	rule, ok := m.at(simOps[s.r.IntN(len(simOps))], s.r.IntN(4))
	if !ok {
		rule.Kind = fault.Stall
	}
	i := s.faults.Inject(rule)
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	release = func() { i.Release(context.Background()) }
	if i.WaitHits(ctx, 1) != nil {
		release()
		return nil
	}
	s.pass(4)
	return release
}

// crashAtOperation crashes the leader in the middle of an operation on the bucket.
func (s *simRun) crashAtOperation() func() string {
	release := s.operation()
	if release == nil {
		return nil
	}
	end := s.crashLeader()
	if end == nil {
		release()
		return nil
	}
	return func() string {
		defer release()
		return end()
	}
}

// halfABucket makes segments or checkpoints fail.
func (s *simRun) halfABucket() func() string {
	end := s.inject(fault.Rule{Kind: fault.LoseRequest, KeyPrefix: []string{"log/", "checkpoint/"}[s.r.IntN(2)]})
	time.Sleep(5 * time.Second)
	return end
}

// flushFaults returns the faults at the operations of the flusher.
func flushFaults() []simFault {
	return []simFault{
		{name: "leader crashed at an operation", times: 2, begin: (*simRun).crashAtOperation},
		{name: "bucket without log or checkpoints", times: 1, begin: (*simRun).halfABucket},
	}
}
