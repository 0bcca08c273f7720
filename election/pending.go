package election

import (
	"crypto/rand"
	"hash/maphash"
	"slices"

	"osqueue/fsm"
	"osqueue/storage/document"
)

// writesMax is the number of ids of past writes in a document.
const writesMax = 16

// doubtMax is the largest number of writes without a known outcome that the fence
// remembers. Each Write that ends without an answer adds one, seconds apart.
const doubtMax = 4096

// sent has the properties of a version that the fence has sent.
type sent struct {
	id  string
	lsn fsm.LSN
	sum uint64 // of the bytes
	len int

	viewed bool      // it shows the jobs
	jobs   *fsm.View // the state whose jobs it shows, if viewed
}

// pending is a version that the fence is sending.
type pending struct {
	sent
	data []byte
}

// seed is secret to the process, so that no other program can make two documents with the
// same sum.
var seed = maphash.MakeSeed()

// prepare encodes c as the next version, with a new id, and remembers it.
func (f *Fence) prepare(c *document.Content, nowMs int64) *pending {
	id := rand.Text()
	f.writes = lastWrites(append(slices.Clone(f.writes), id))
	// Allocate some spare capacity at once: growing the buffer repeatedly would copy a
	// large document each time and delay the flush.
	room := slices.Grow(f.spare[:0], f.size+f.size/8)
	data, viewed := document.AppendTo(room, c, document.Header{
		Lineage:   f.lineage,
		Cluster:   f.me.Cluster,
		Epoch:     f.epoch,
		Node:      f.me.Node,
		Write:     id,
		Writes:    f.writes,
		Fence:     f.me.Fence,
		Handovers: f.passed,
	}, f.me.Address, nowMs)
	f.spare = nil // until the store has certainly finished reading it
	p := &pending{
		sent: sent{id: id, lsn: c.LSN(), sum: maphash.Bytes(seed, data), len: len(data), viewed: viewed, jobs: c.Jobs},
		data: data,
	}
	if len(f.sent) >= doubtMax {
		f.sent = slices.Delete(f.sent, 0, 1)
	}
	f.sent = append(f.sent, p.sent)
	f.newest = later(f.newest, p.lsn)
	return p
}

// find returns the remembered version with these bytes.
func (f *Fence) find(data []byte) (sent, bool) {
	sum := maphash.Bytes(seed, data)
	for _, s := range f.sent {
		if s.sum == sum && s.len == len(data) {
			return s, true
		}
	}
	return sent{}, false
}

// landed makes s, at the fence's new version, the version that the next write replaces.
// Writes without a known outcome were conditional on the previous version, so they can no
// longer be applied.
func (f *Fence) landed(s sent) {
	f.sent = append(f.sent[:0], s)
	f.size, f.viewed = s.len, s.viewed
	f.flushed = later(f.flushed, s.lsn)
}

// noteHistory finds, from the ids in a document of another writer, the remembered writes
// that had been applied before it.
func (f *Fence) noteHistory(h *document.Header) {
	if h == nil {
		return
	}
	for _, s := range f.sent {
		if s.id == h.Write || slices.Contains(h.Writes, s.id) {
			f.flushed = later(f.flushed, s.lsn)
		}
	}
}

func lastWrites(ids []string) []string { return ids[max(0, len(ids)-writesMax):] }

func later(a, b fsm.LSN) fsm.LSN {
	if a.Compare(b) >= 0 {
		return a
	}
	return b
}
