package election

import (
	"crypto/rand"
	"hash/maphash"
	"slices"

	"osqueue/fsm"
	"osqueue/storage/queuefile"
)

// writesMax is how many ids of past writes a document carries.
const writesMax = 16

// doubtMax bounds the writes that are remembered while the bucket is away. One
// more is made at most every time a Write gives up, seconds apart.
const doubtMax = 4096

// sent is what the fence remembers of a version that it has sent.
type sent struct {
	id  string
	lsn fsm.LSN
	sum uint64 // of the bytes
	len int

	large bool // its state is in an archive
}

// draft is a version that is being sent.
type draft struct {
	sent
	data []byte
}

// seed is the process's own, so nobody outside can make two documents collide.
var seed = maphash.MakeSeed()

// draft encodes c as the next version, with a fresh id, and remembers it.
func (f *Fence) draft(c *queuefile.Content, nowMs int64) *draft {
	id := rand.Text()
	f.writes = lastWrites(append(slices.Clone(f.writes), id))
	// Room for some growth at once: copying a large document again and again as
	// it is appended to would hold up everything else.
	room := slices.Grow(f.spare[:0], f.size+f.size/8)
	data, large := queuefile.AppendTo(room, c, queuefile.Header{
		Lineage:   f.lineage,
		Cluster:   f.me.Cluster,
		Epoch:     f.epoch,
		Node:      f.me.Node,
		Write:     id,
		Writes:    f.writes,
		Next:      f.next.Milliseconds(),
		Handovers: f.passed,
	}, f.me.Address, nowMs)
	f.spare = nil // until the store is certain to be done with it
	d := &draft{
		sent: sent{id: id, lsn: c.LSN(), sum: maphash.Bytes(seed, data), len: len(data), large: large},
		data: data,
	}
	if len(f.sent) >= doubtMax {
		f.sent = slices.Delete(f.sent, 0, 1)
	}
	f.sent = append(f.sent, d.sent)
	f.newest = later(f.newest, d.lsn)
	return d
}

// find returns the version among those remembered that has these bytes.
func (f *Fence) find(data []byte) (sent, bool) {
	sum := maphash.Bytes(seed, data)
	for _, s := range f.sent {
		if s.sum == sum && s.len == len(data) {
			return s, true
		}
	}
	return sent{}, false
}

// landed makes s, at the fence's new version, the base of what follows. Writes
// that were still in doubt were conditional on the version before and can never
// be applied any more.
func (f *Fence) landed(s sent) {
	f.sent = append(f.sent[:0], s)
	f.size, f.large = s.len, s.large
	f.flushed = later(f.flushed, s.lsn)
}

// noteHistory learns from the ids in somebody's document which of the writes
// in doubt had been applied before.
func (f *Fence) noteHistory(h *queuefile.Header) {
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
