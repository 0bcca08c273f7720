package transport

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/raft"
)

// Raft decodes whatever arrives on its port: one byte of input can become a log entry of
// 100 bytes in memory, and a text may have 4 GiB. A message follows the bytes of one
// connection and refuses a request that is larger than any request of a node, before raft
// has decoded it. It knows only the shape of MessagePack: how long each value is, and how
// many values follow.

const (
	// messageMax bounds one request without the bytes of a snapshot. The largest log entry
	// has 16 MiB.
	messageMax = 20 << 20
	// valuesMax bounds the values in one request: numbers, texts, lists. A request with
	// AppendMaxEntries entries has about 500.
	valuesMax = 8192
	// kindsMax is the number of kinds of requests.
	kindsMax = 5
	// kindSnapshot is the kind of request that the bytes of a snapshot follow.
	kindSnapshot = 2
)

// message is the state of the request that arrives on a connection. Its zero value expects
// a request of any sender. It is for one goroutine.
//
// With from, the id of the request must be that of the node from: raft believes the id, and
// the certificate of the connection proves the name only. Ids are at the top of a request; no
// other map in it has the key.
type message struct {
	from string // name of the node that may send requests; "": any
	ids  int    // ids that have come, all of them of from
	key  bool   // the value that came last is the key of the id
	keep bool   // the current value is short, and is collected in text
	text [idBytes]byte
	kept int // bytes of text

	begun bool // the kind has arrived
	raw   bool // the bytes of a snapshot follow until the answer
	kind  byte

	values  uint64 // that are still to come
	seen    uint64 // that have begun
	ended   uint64 // that have been looked at
	skip    uint64 // bytes of the current value that are still to come
	length  int    // bytes of a length that are still to come
	counted uint64 // the length, as far as it has come
	tag     byte   // of the value that has the length
	bytes   int64  // of the request, without those of a snapshot
}

var (
	errTooLarge  = fmt.Errorf("the request has more than %d bytes", messageMax)
	errTooMany   = fmt.Errorf("the request has more than %d values", valuesMax)
	errNoRequest = errors.New("the bytes are not a request of raft")
	errNoID      = errors.New("the request does not name its sender")
)

// under reports whether a request has begun and has not been answered.
func (m *message) under() bool { return m.begun || m.raw }

// answered begins the next request.
func (m *message) answered() { *m = message{from: m.from} }

// read follows bytes that have arrived.
func (m *message) read(p []byte) error {
	for len(p) > 0 && !m.raw {
		n := 1
		if m.skip > 0 {
			n = int(min(m.skip, uint64(len(p))))
			m.skip -= uint64(n)
			if m.keep {
				m.kept += copy(m.text[m.kept:], p[:n])
			}
		} else if err := m.next(p[0]); err != nil {
			return err
		}
		if m.bytes += int64(n); m.bytes > messageMax || m.skip > messageMax {
			return errTooLarge
		}
		p = p[n:]
		if err := m.endValue(); err != nil {
			return err
		}
		if m.values == 0 && m.skip == 0 && m.length == 0 {
			if m.from != "" && m.ids == 0 {
				return errNoID
			}
			m.complete()
		}
	}
	return nil
}

// The key of the id in a request, and the longest id.
const (
	idKey   = "ID"
	idBytes = 128
)

// endValue checks a value that has come as a whole, if it is an id.
func (m *message) endValue() error {
	if m.from == "" || m.skip > 0 || m.length > 0 || m.seen == m.ended {
		return nil
	}
	m.ended = m.seen
	text, was := string(m.text[:m.kept]), m.key
	m.kept, m.keep, m.key = 0, false, !was && text == idKey
	if !was {
		return nil
	}
	if name, _, _ := strings.Cut(text, "~"); name != m.from {
		return fmt.Errorf("node %s sent a request in which the sender is %.64q", m.from, text)
	}
	m.ids++
	return nil
}

// complete ends a request: its answer, the bytes of a snapshot or the next request follow.
func (m *message) complete() {
	if m.kind == kindSnapshot {
		m.raw = true
		return
	}
	m.answered()
}

// next takes a byte that is not the content of a value.
func (m *message) next(b byte) error {
	switch {
	case !m.begun:
		if b >= kindsMax {
			return errNoRequest
		}
		m.begun, m.kind, m.values = true, b, 1
		return nil
	case m.length > 0:
		m.counted = m.counted<<8 | uint64(b)
		if m.length--; m.length > 0 {
			return nil
		}
		return m.sized(m.tag, m.counted)
	}
	m.values--
	if m.seen++; m.seen > valuesMax {
		return errTooMany
	}
	if m.seen == 1 && m.from != "" && b&0xf0 != 0x80 && b&0xfe != 0xde {
		return errNoID // a list has no keys
	}
	return m.value(b)
}

// value begins a value with its first byte.
func (m *message) value(b byte) error {
	switch {
	case b <= 0x7f, b >= 0xe0, b == 0xc0, b == 0xc2, b == 0xc3: // small number, nil, false, true
		return nil
	case b <= 0x8f:
		return m.contains(2 * uint64(b&0x0f))
	case b <= 0x9f:
		return m.contains(uint64(b & 0x0f))
	case b <= 0xbf:
		m.skip = uint64(b & 0x1f)
		m.keep = m.from != ""
		return nil
	case b >= 0xca && b <= 0xd3: // numbers
		m.skip = [...]uint64{4, 8, 1, 2, 4, 8, 1, 2, 4, 8}[b-0xca]
		return nil
	case b >= 0xd4 && b <= 0xd8: // extension of a fixed size, after its type
		m.skip = 1 + 1<<(b-0xd4)
		return nil
	case b >= 0xc4 && b <= 0xc9: // bytes and extensions
		m.length = 1 << ((b - 0xc4) % 3)
	case b >= 0xd9 && b <= 0xdb: // text
		m.length = 1 << (b - 0xd9)
	case b >= 0xdc: // lists and maps
		m.length = 2 << (b & 1)
	default:
		return errNoRequest
	}
	m.tag, m.counted = b, 0
	return nil
}

// sized continues a value whose length has arrived.
func (m *message) sized(tag byte, n uint64) error {
	switch {
	case tag >= 0xde: // a map
		return m.contains(2 * n)
	case tag >= 0xdc: // a list
		return m.contains(n)
	case tag >= 0xc7 && tag <= 0xc9: // an extension, after its type
		n++
	}
	m.skip = n
	m.keep = m.from != "" && n <= idBytes
	return nil
}

// contains adds the values of a list or map.
func (m *message) contains(n uint64) error {
	if m.values += n; m.values > valuesMax {
		return errTooMany
	}
	return nil
}

// entryOverhead is about the size in bytes of an entry in addition to its data.
const entryOverhead = 64

// EntryBytes returns the size in bytes of a log entry, in a request and in memory.
func EntryBytes(l *raft.Log) int { return len(l.Data) + len(l.Extensions) + entryOverhead }

// AppendMaxBytes bounds the entries of one AppendEntries request. A follower stores a
// request in one write, and the leader waits for that write with a deadline. A request
// has at least one entry.
const AppendMaxBytes = 4 << 20

// AppendMaxEntries bounds the number of entries in one request. Raft reads all of them
// before cutAppend counts their bytes. Under load, group commit makes entries larger, not
// more.
const AppendMaxEntries = 32

// cutAppend returns the first entries that have at most AppendMaxBytes together, and at
// least one.
func cutAppend(entries []*raft.Log) []*raft.Log {
	sum := 0
	for i, l := range entries {
		if sum += EntryBytes(l); sum > AppendMaxBytes && i > 0 {
			return entries[:i]
		}
	}
	return entries
}

// Transport connects raft to the other nodes. It is safe for concurrent use.
type Transport interface {
	raft.Transport
	raft.WithPreVote

	// CloseStreams closes the connections to other nodes. The transport connects again
	// when it needs to.
	CloseStreams()
	// Close ends all calls that are under way.
	Close() error
}
