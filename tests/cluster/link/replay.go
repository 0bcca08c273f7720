package link

import (
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// The bounds of the records.
const (
	recordBytes = 2 << 20 // of one connection; what follows is not recorded
	recordsMax  = 256
)

// raftKinds is the number of kinds of raft requests, which are the first byte of one.
const raftKinds = 5

// record is what a dialer has sent on a connection, from the beginning.
type record struct {
	link   Link
	target string

	mu   sync.Mutex
	data []byte
	full bool
}

// record begins to record a connection, if its service is that of raft.
func (n *Net) record(l Link, target string) *record {
	if l.Service != Raft {
		return nil
	}
	r := &record{link: l, target: target}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sent = append(n.sent, r); len(n.sent) > recordsMax {
		n.sent = slices.Clone(n.sent[1:])
	}
	return r
}

func (r *record) add(data []byte) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full = r.full || len(r.data)+len(data) > recordBytes; !r.full {
		r.data = append(r.data, data...)
	}
}

// requests returns what was sent, if it is for raft.
func (r *record) requests() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.data) == 0 || r.data[0] >= raftKinds {
		return nil
	}
	return slices.Clone(r.data)
}

// replayLimit bounds the replay of one connection.
const replayLimit = 20 * time.Second

// Replay sends the recorded requests of links once more, the oldest connection first, and
// drops the answers. It returns how many bytes the targets have read and answered to the end.
func (n *Net) Replay(links ...Link) (bytes int) {
	n.mu.Lock()
	all := slices.Clone(n.sent)
	n.mu.Unlock()
	for _, r := range all {
		if data := r.requests(); len(data) > 0 && anyCovers(links, r.link) && replay(r.target, data) {
			bytes += len(data)
		}
	}
	return bytes
}

// replay reports whether the target has taken all requests.
func replay(target string, data []byte) bool {
	c, err := net.DialTimeout("tcp4", target, dialLimit)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(replayLimit)) // of a new socket
	answered := make(chan int64, 1)
	go func() {
		n, _ := io.Copy(io.Discard, c) // until the target closes it
		answered <- n
	}()
	_, err = c.Write(data)
	_ = c.(*net.TCPConn).CloseWrite() // the target ends its half when it has read all
	return <-answered > 0 && err == nil
}
