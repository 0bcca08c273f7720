package raftlog

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"osqueue/cluster/transport"
)

// node is a raft node as Log sees it.
type node struct {
	state  raft.RaftState
	voters int
}

func (n *node) State() raft.RaftState { return n.state }
func (n *node) CommitIndex() uint64   { return 0 } // the log may lose its end

func (n *node) GetConfiguration() raft.ConfigurationFuture {
	c := raft.Configuration{Servers: []raft.Server{{ID: "x", Suffrage: raft.Nonvoter}}}
	for i := range n.voters {
		c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(fmt.Sprint(i))})
	}
	return configuration{c}
}

type configuration struct{ c raft.Configuration }

func (configuration) Error() error                        { return nil }
func (configuration) Index() uint64                       { return 0 }
func (c configuration) Configuration() raft.Configuration { return c.c }

// gate is a disk whose writes wait until the test lets them end. It has what is durable.
type gate struct {
	*hooked
	outcome chan error // of the write under way
	overlap bool       // two writes were under way at the same time
	failed  bool       // a write failed, after which none may begin
	after   bool       // there was a write after that
	doing   string     // the write under way
	logs    []*raft.Log
}

func newGate() *gate {
	d := &gate{hooked: newHooked(), outcome: make(chan error)}
	d.frame = func(f frame, logs []*raft.Log) {
		if f.kind == kindTruncate {
			d.logs = d.logs[:f.first-1]
		}
		d.logs = append(d.logs, logs...)
	}
	return d
}

// write waits before each write. Only one goroutine runs at a time in these tests, except where it
// waits here.
func (d *gate) write(what string) error {
	if what == reads || what == gets || what == records { // the record of the start waits for nobody
		return nil
	}
	d.overlap = d.overlap || d.doing != ""
	d.after = d.after || d.failed
	d.doing = what
	err := <-d.outcome
	d.doing = ""
	d.failed = d.failed || err != nil
	return err
}

// end ends the write under way, if there is one.
func (d *gate) end(err error) bool {
	select {
	case d.outcome <- err:
		return true
	default:
		return false
	}
}

func (d *gate) last() uint64 { return uint64(len(d.logs)) }

func (d *gate) at(index uint64) *raft.Log {
	if index == 0 || index > d.last() {
		return nil
	}
	return d.logs[index-1]
}

// call is a call of a Log that may wait.
type call struct {
	what     string
	added    int // number of new entries in the log
	returned bool
	err      error
}

// history runs a log against a model of it, as raft's goroutines use it. It checks after each
// step what a crash would leave behind.
type history struct {
	l       *Log
	d       *gate
	n       *node
	closing chan struct{}
	made    int
	fatal   int

	mem    []*raft.Log // content of the log, from the index from on, as raft knows it
	from   uint64
	term   uint64
	main   *call        // of raft's main goroutine
	cut    *call        // of the goroutine that removes the start
	check  func() error // of main, when it has returned without an error
	awaits []*await
	failed bool
}

// await is an answer that waits.
type await struct {
	entry *raft.Log
	call
}

func newHistory() *history {
	h := &history{d: newGate(), n: &node{state: raft.Follower, voters: 3}, closing: make(chan struct{}), from: 1, term: 1}
	var err error
	h.l, err = Open(h.d, Options{Fatal: func(error) { h.fatal++ }, Closing: h.closing, Size: 64 << 10})
	if err != nil {
		panic(err)
	}
	h.d.before = h.d.write
	h.l.Serve(h.n)
	return h
}

func (h *history) last() uint64 { return h.from + uint64(len(h.mem)) - 1 }

func start(what string, fn func() error) *call {
	c := &call{what: what}
	go func() {
		c.err = fn()
		c.returned = true
	}()
	return c
}

// entries makes the next entries of the log.
func (h *history) entries(n, size int) (logs []*raft.Log) {
	for i := range n {
		h.made++
		data := append(fmt.Appendf(nil, "%d ", h.made), make([]byte, size)...)
		logs = append(logs, &raft.Log{Index: h.last() + uint64(i) + 1, Term: h.term, Type: raft.LogCommand, Data: data})
	}
	return logs
}

// durable reports whether the whole log is on the disk.
func (h *history) durable() error {
	if h.d.last() != h.last() {
		return fmt.Errorf("the disk has entries up to %d of %d", h.d.last(), h.last())
	}
	return nil
}

// step does one thing. a and b choose what.
func (h *history) step(kind, a, b int) {
	leads := h.n.state == raft.Leader
	switch {
	case kind == 0: // the disk answers
		h.d.end(nil)
	case kind == 1 && b == 0 && h.d.doing != "": // the write under way fails
		h.failed = h.d.end(errDisk) || h.failed
	case kind == 2 && h.main == nil && len(h.mem) > 0: // a follower has answered
		e := h.mem[a%len(h.mem)]
		w := &await{entry: e}
		h.awaits = append(h.awaits, w)
		go func() {
			w.err = h.l.Await(e.Index, nil)
			w.returned = true
		}()
	// The start that is removed is committed, so it is never truncated.
	case kind == 3 && !h.failed && h.d.last() > h.from+1 && (h.main == nil || h.main.what != "truncate"):
		cut := 1 + a%int(h.d.last()-h.from)
		h.cut = start("remove the start", func() error { return h.l.DeleteRange(h.from, h.from+uint64(cut)-1) })
		synctest.Wait()
		h.mem, h.from = h.mem[cut:], h.from+uint64(cut)
	case h.main != nil: // raft's main goroutine waits
	case kind <= 5 && leads && h.n.voters > 1: // the leader appends
		size := 10
		if b == 0 {
			size = queueBytes/3 + a
		}
		logs := h.entries(1+a%3, size)
		h.mem = append(h.mem, logs...)
		h.main = start("append", func() error { return h.l.StoreLogs(logs) })
		h.main.added = len(logs)
	case kind <= 6: // a follower or a single voter appends, or the leader a configuration
		logs := h.entries(1+a%3, 10)
		if leads && h.n.voters > 1 {
			logs[len(logs)-1].Type = raft.LogConfiguration
		}
		h.mem, h.check = append(h.mem, logs...), h.durable
		h.main = start("append and wait", func() error { return h.l.StoreLogs(logs) })
		h.main.added = len(logs)
	case kind == 7: // another term begins
		h.n.state, h.check = raft.Follower, h.durable
		h.term++
		term := h.term
		h.main = start("set the term", func() error { return h.l.SetUint64(nil, term) })
	case kind == 8 && !leads: // the node is elected; a shorter log may have been overwritten before
		h.n.state, h.n.voters = raft.Leader, 1+a%3
	case kind == 9 && !leads && min(h.d.last(), h.last()) > h.from: // a new leader truncates the log
		at := h.last() - uint64(a)%(h.last()-h.from)
		to := h.last()
		h.mem, h.check = h.mem[:at-h.from], h.durable
		h.main = start("truncate", func() error { return h.l.DeleteRange(at, to) })
	case kind == 10:
		h.check = h.durable
		want := h.last()
		h.main = start("read the last index", func() error {
			got, err := h.l.LastIndex()
			if err == nil && got != want {
				err = fmt.Errorf("the last index is %d, want %d", got, want)
			}
			return err
		})
	}
}

var errDisk = errors.New("no space left on device")

// settled checks the state after a step, in which every goroutine waits.
func (h *history) settled() error {
	if h.d.overlap {
		return errors.New("two writes at a time")
	}
	if h.d.after {
		return errors.New("a write after one that failed")
	}
	if c := h.cut; c != nil && (!c.returned || c.err != nil) {
		return fmt.Errorf("%s: returned %v during a write, %w", c.what, c.returned, c.err)
	}
	if h.failed != (h.fatal > 0) {
		return fmt.Errorf("a write failed: %v, and the node ends %d times", h.failed, h.fatal)
	}
	if c := h.main; c != nil && c.returned {
		check := h.check
		h.main, h.check = nil, nil
		if c.err != nil && (!h.failed || c.what == "set the term") {
			return fmt.Errorf("%s: %w", c.what, c.err)
		}
		if c.err != nil { // raft does not have entries that the log refused
			h.mem = h.mem[:max(len(h.mem)-c.added, 0)]
		}
		if c.err == nil && check != nil {
			if err := check(); err != nil {
				return fmt.Errorf("%s has returned, and %w", c.what, err)
			}
		}
	}
	return errors.Join(h.content(), h.answers(), h.bounded())
}

// content checks what raft reads, and what a crash would leave: a prefix of it.
func (h *history) content() error {
	for i, want := range h.mem {
		index := h.from + uint64(i)
		if e := h.d.at(index); e != nil && e.Term == want.Term && string(e.Data) != string(want.Data) {
			return fmt.Errorf("entry %d on the disk is another one", index)
		}
		if h.main != nil || h.failed {
			continue // the entries may be neither in the queue nor on the disk
		}
		var l raft.Log
		if err := h.l.GetLog(index, &l); err != nil || string(l.Data) != string(want.Data) {
			return fmt.Errorf("entry %d is %.20q, want %.20q: %w", index, l.Data, want.Data, err)
		}
	}
	if h.main == nil && !h.failed && h.d.last() > h.last() {
		return fmt.Errorf("the disk has entries up to %d of %d", h.d.last(), h.last())
	}
	return nil
}

// answers checks the answers that were released.
func (h *history) answers() error {
	var rest []*await
	for _, w := range h.awaits {
		if !w.returned {
			rest = append(rest, w)
			continue
		}
		if w.err != nil {
			if !h.failed {
				return fmt.Errorf("the answer for entry %d: %w", w.entry.Index, w.err)
			}
			continue
		}
		if e := h.d.at(w.entry.Index); w.entry.Index >= h.from && w.entry.Term == h.term && h.n.state == raft.Leader &&
			(e == nil || string(e.Data) != string(w.entry.Data)) {
			return fmt.Errorf("the answer for entry %d is released, and the disk has the entries up to %d", w.entry.Index, h.d.last())
		}
	}
	h.awaits = rest
	return nil
}

func (h *history) bounded() error {
	size := 0
	for _, l := range h.l.tail.queue() {
		size += transport.EntryBytes(l)
	}
	if size != h.l.tail.queueBytes {
		return fmt.Errorf("the queue has %d bytes, and reckons with %d", size, h.l.tail.queueBytes)
	}
	if size > 3*(queueBytes/3+200) { // the largest append of a history
		return fmt.Errorf("the queue has %d bytes", size)
	}
	return nil
}

// end lets everything end. A node whose disk has failed ends with it.
func (h *history) end() error {
	var err error
	for more := true; more; more = h.d.end(nil) {
		synctest.Wait()
		err = cmp.Or(err, h.settled())
	}
	defer synctest.Wait()
	closeNow := sync.OnceFunc(func() { close(h.closing) })
	defer closeNow()
	if err != nil {
		return err
	}
	if !h.failed && (h.main != nil || len(h.awaits) > 0) {
		return fmt.Errorf("%v and %d answers wait without a write", h.main, len(h.awaits))
	}
	if c := h.main; h.failed && c != nil && c.what != "set the term" {
		return fmt.Errorf("the disk has failed, and raft waits to %s", c.what)
	}
	closeNow()
	synctest.Wait()
	if c := h.main; c != nil && (!c.returned || c.err != nil) {
		return fmt.Errorf("the node is being closed, and %s: returned %v, %w", c.what, c.returned, c.err)
	}
	if len(h.awaits) > 0 && h.settled() == nil && len(h.awaits) > 0 {
		return errors.New("an answer waits for a disk that has failed")
	}
	return nil
}

// play makes a history of steps, each a number that chooses what happens.
func play(steps []int) (err error) {
	h := newHistory()
	for _, s := range steps {
		h.step(s%11, s/11%8, s/88)
		synctest.Wait()
		if err = h.settled(); err != nil {
			break
		}
	}
	return cmp.Or(err, h.end())
}

// The queue and a direct write, which wait for the disk while another write fails, do not take place.
func TestNoWriteAfterAFailure(t *testing.T) {
	for _, waits := range []string{"the queue", "a direct write"} {
		synctest.Test(t, func(t *testing.T) {
			h := newHistory()
			defer synctest.Wait()
			defer close(h.closing)
			go h.l.StoreLogs(h.entries(3, 10))
			synctest.Wait()
			h.d.end(nil)
			synctest.Wait()
			h.n.state = raft.Leader
			set := start("set the term", func() error { return h.l.SetUint64(nil, 2) }) // raft's handler of heartbeats
			synctest.Wait()
			var direct *call
			if waits == "the queue" {
				if err := h.l.StoreLogs([]*raft.Log{{Index: 4}}); err != nil {
					t.Fatal(err)
				}
			} else {
				direct = start(waits, func() error { return h.l.Set([]byte("key"), nil) })
			}
			synctest.Wait()
			h.d.end(errDisk)
			synctest.Wait()
			if h.d.overlap || h.d.after || h.d.end(nil) {
				t.Errorf("%s was written", waits)
			}
			if direct != nil && !errors.Is(direct.err, errDisk) {
				t.Errorf("%s: %v", waits, direct.err)
			}
			if err := h.l.Await(4, nil); direct == nil && !errors.Is(err, errDisk) {
				t.Errorf("the answer for entry 4: %v", err)
			}
			if err := h.l.StoreLogs([]*raft.Log{{Index: 5}}); !errors.Is(err, errDisk) {
				t.Errorf("the next append: %v", err)
			}
			if set.returned {
				t.Error("raft goes on without its term")
			}
		})
	}
}

// TestQueue compares the log with a model in random histories. The model has the content of the
// disk after each step, which is what a crash at that point leaves.
func TestQueue(t *testing.T) {
	for range 10 { // rapid makes 100 histories
		rapid.Check(t, func(rt *rapid.T) {
			steps := rapid.SliceOfN(rapid.IntRange(0, 11*64-1), 1, 200).Draw(rt, "steps")
			var err error
			synctest.Test(t, func(*testing.T) { err = play(steps) })
			if err != nil {
				rt.Fatal(err)
			}
		})
	}
}
