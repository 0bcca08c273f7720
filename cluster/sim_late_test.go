package cluster

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/storage"
)

// simLateMost is how long after it was sent a message arrives at most. The kernel of a sender
// repeats bytes for minutes.
const simLateMost = time.Minute

// simLate is a request that arrives late.
type simLate struct {
	link simLink
	cmd  any
	body []byte // of a snapshot
}

// simLateness says which requests come late, and counts those that came.
type simLateness struct {
	often bool // while the fault lasts
	over  chan struct{}
	once  sync.Once
	wg    sync.WaitGroup
	came  map[string]int // by kind; under simNet.mu
}

func newSimLateness() simLateness {
	return simLateness{over: make(chan struct{}), came: make(map[string]int)}
}

// simKind returns the kind of a request.
func simKind(cmd any) string {
	switch cmd.(type) {
	case *raft.AppendEntriesRequest:
		if isHeartbeat(cmd) {
			return "heartbeat"
		}
		return "append"
	case *raft.RequestVoteRequest:
		return "vote"
	case *raft.RequestPreVoteRequest:
		return "pre-vote"
	case *raft.InstallSnapshotRequest:
		return "snapshot"
	case *raft.TimeoutNowRequest:
		return "transfer"
	}
	return "other"
}

// simLateKinds are the kinds of requests that come late.
var simLateKinds = []string{"heartbeat", "append", "vote", "pre-vote", "snapshot", "transfer", "identity", "join", "put"}

// isLate decides whether a copy of a request comes late, and when. Most requests are appends
// and questions for the identity.
func (n *simNet) isLate(kind string) (after time.Duration, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	likely := 0.3
	switch {
	case kind == "append" || kind == "heartbeat" || kind == "identity" || kind == "put":
		likely = 0.003
		if n.lates.often {
			likely = 0.1
		}
	case n.lates.often:
		likely = 0.9
	}
	most := simLateMost
	if n.r.IntN(2) == 0 {
		most = time.Second // soon: in the middle of what follows
	}
	return time.Duration(n.r.Int64N(int64(most))), n.r.Float64() < likely
}

// copyLate lets a copy of a request come late, for some requests. It returns the body of the
// request, which it may have read.
func (n *simNet) copyLate(l simLink, cmd any, data io.Reader) io.Reader {
	after, ok := n.isLate(simKind(cmd))
	if !ok {
		return data
	}
	late, data := newSimLate(l, cmd, data)
	n.later(after, l, simKind(cmd), func() bool { return n.deliver(late) })
	return data
}

// later calls deliver after a while, when the link is not cut.
func (n *simNet) later(after time.Duration, l simLink, kind string, deliver func() bool) {
	n.lates.wg.Go(func() {
		if simWait(after, n.lates.over, nil) != nil || n.pass(l, n.lates.over, nil) != nil {
			return
		}
		if deliver() {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.lates.came[kind]++
		}
	})
}

// endLate drops the requests that have not come yet, and returns how many of each kind came.
func (n *simNet) endLate() map[string]int {
	n.lates.once.Do(func() { close(n.lates.over) })
	n.lates.wg.Wait()
	return n.cameLate()
}

func (n *simNet) cameLate() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make(map[string]int, len(n.lates.came))
	for k, v := range n.lates.came {
		all[k] = v
	}
	return all
}

// setLate makes many requests come late, or few.
func (n *simNet) setLate(often bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lates.often = often
}

// newSimLate copies a request whole, as the buffers of the network do. It returns the body
// for the request itself.
func newSimLate(l simLink, cmd any, data io.Reader) (*simLate, io.Reader) {
	late := &simLate{link: l}
	switch r := cmd.(type) { // raft uses its requests again
	case *raft.AppendEntriesRequest:
		c := *r
		late.cmd = &c
	case *raft.InstallSnapshotRequest:
		c := *r
		late.cmd = &c
	default:
		late.cmd = cmd
	}
	if s, ok := data.(*simStream); ok {
		late.body, _ = io.ReadAll(s.Reader) // from memory
		s.Reader = bytes.NewReader(late.body)
	}
	return late, data
}

// deliver delivers a request whose sender does not wait for the answer. It returns when the node
// has answered, and reports whether it has. The node must have what its answer confirms.
func (n *simNet) deliver(l *simLate) bool {
	peer := n.end(l.link.to)
	if peer == nil {
		return false
	}
	answer := make(chan raft.RPCResponse, 1)
	rpc := raft.RPC{Command: l.cmd, RespChan: answer}
	if _, ok := l.cmd.(*raft.InstallSnapshotRequest); ok {
		rpc.Reader = bytes.NewReader(l.body)
	}
	if err := peer.take(rpc, nil, nil); err != nil {
		return false
	}
	select {
	case r := <-answer:
		peer.confirmed(l.cmd, r.Response)
		return true
	case <-peer.dead:
		return false
	}
}

// copyLateHTTP is copyLate for the calls of peers.
func (n *simNet) copyLateHTTP(l simLink, req *http.Request) {
	kind := "identity"
	if strings.HasSuffix(req.URL.Path, "/join") {
		kind = "join"
	}
	after, ok := n.isLate(kind)
	if !ok {
		return
	}
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body) // from memory
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	n.later(after, l, kind, func() bool {
		peer := n.end(l.to)
		if peer == nil {
			return false
		}
		h := peer.handler()
		if h == nil {
			return false
		}
		ctx, cancel := context.WithTimeout(context.Background(), simPatience)
		defer cancel()
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			select {
			case <-peer.dead:
				stop()
			case <-ctx.Done():
			}
		}()
		again := req.Clone(ctx)
		again.Body = io.NopCloser(bytes.NewReader(body))
		h.ServeHTTP(httptest.NewRecorder(), again)
		return true
	})
}

// copyLatePut is copyLate for a write to the bucket. Its condition has to refuse the copy if the
// write itself was applied.
func (n *simNet) copyLatePut(from string, put func(context.Context) storage.Write) {
	after, ok := n.isLate("put")
	if !ok {
		return
	}
	n.later(after, simLink{from, "bucket"}, "put", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), simPatience)
		defer cancel()
		return put(ctx).Outcome != storage.Unknown
	})
}

// hold holds back the requests that match keep: their senders give up. release delivers them.
func (n *simNet) hold(keep func(simLink, any) bool) (release func() int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.keep = keep
	return func() int {
		n.mu.Lock()
		all := n.kept
		n.keep, n.kept = nil, nil
		n.mu.Unlock()
		for _, l := range all {
			n.deliver(l)
		}
		return len(all)
	}
}

// keeps reports whether a request is held back.
func (n *simNet) keeps(l simLink, cmd any, data io.Reader) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.keep == nil || !n.keep(l, cmd) {
		return false
	}
	late, _ := newSimLate(l, cmd, data)
	n.kept = append(n.kept, late)
	return true
}

// lateMessages makes messages of every kind come late, and calls elections while they do.
func (s *simRun) lateMessages() func() string {
	before := s.a.net.cameLate()
	s.a.net.setLate(true)
	s.transfer()
	s.pass(30)
	return func() string {
		s.a.net.setLate(false)
		var proof []string
		for _, kind := range simLateKinds {
			if n := s.a.net.cameLate()[kind] - before[kind]; n > 0 {
				proof = append(proof, kind)
			}
		}
		return strings.Join(proof, ", ")
	}
}

// The leader gives up on a snapshot for a follower that was away, and repeats it. The follower
// gets the state and confirms entries behind it. Then the first request arrives. The follower
// must keep what it has confirmed.
func TestSimLateSnapshotTakesNothingBack(t *testing.T) {
	simScene(t, 3, func(s *simRun) {
		f := s.follower()
		f.crash()
		for from := s.counts.Count("entry applied"); s.counts.Count("entry applied") < from+500; {
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(10 * time.Second) // the leader takes snapshots
		held := 0
		release := s.a.net.hold(func(l simLink, cmd any) bool {
			_, is := cmd.(*raft.InstallSnapshotRequest)
			if is = is && l.to == f.name && held == 0; is {
				held++
			}
			return is
		})
		if !s.calm() {
			return
		}
		time.Sleep(3 * time.Second)
		index, term := f.alive().disk.newest()
		restored := s.counts.Count("snapshot restored")
		if n := release(); n != 1 {
			s.failf("%d snapshots came late, want 1", n)
		}
		if n := s.counts.Count("snapshot restored") - restored; n != 0 { // the leader may send the lost entries again at once
			s.failf("%s has restored the late snapshot", f.name)
		}
		if l := f.alive(); l == nil || !l.disk.has(index, term) {
			s.failf("%s has lost entry %d of term %d, which it had confirmed", f.name, index, term)
			return
		}
		s.a.active().place.crash()
		s.calm()
	})
}
