package transport

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"
)

// encoded returns a request as it is on the wire.
func encoded(t testing.TB, kind byte, request any) []byte {
	t.Helper()
	out := bytes.NewBuffer([]byte{kind})
	if err := codec.NewEncoder(out, &codec.MsgpackHandle{}).Encode(request); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func requests(t testing.TB) map[string][]byte {
	full := &raft.AppendEntriesRequest{Term: 1 << 40, RPCHeader: raft.RPCHeader{Addr: []byte("a")}, PrevLogEntry: 70_000}
	for i := range uint64(AppendMaxEntries) {
		full.Entries = append(full.Entries, &raft.Log{Index: i, Data: bytes.Repeat([]byte{0xdd}, 300*int(i)), Extensions: []byte("x")})
	}
	return map[string][]byte{
		"entries":     encoded(t, 0, full),
		"heartbeat":   encoded(t, 0, &raft.AppendEntriesRequest{Term: 5}),
		"vote":        encoded(t, 1, &raft.RequestVoteRequest{Term: 5, RPCHeader: raft.RPCHeader{Addr: bytes.Repeat([]byte("c"), 300)}}),
		"time out":    encoded(t, 3, &raft.TimeoutNowRequest{}),
		"pre-vote":    encoded(t, 4, &raft.RequestPreVoteRequest{Term: 5}),
		"large entry": encoded(t, 0, &raft.AppendEntriesRequest{Entries: []*raft.Log{{Data: make([]byte, 16<<20)}}}),
	}
}

// A message knows where a request ends, however its bytes arrive.
func TestMessageFollowsRequests(t *testing.T) {
	for name, data := range requests(t) {
		for _, step := range []int{1, 7, 4096, len(data)} {
			if step == 1 && len(data) > 1<<20 {
				continue
			}
			var m message
			for i := 0; i < len(data); i += step {
				if i > 0 && !m.under() {
					t.Fatalf("%s: ends after %d of %d bytes", name, i, len(data))
				}
				if err := m.read(data[i:min(len(data), i+step)]); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			if m.under() {
				t.Errorf("%s in steps of %d: does not end: %+v", name, step, m)
			}
		}
	}
}

// The bytes of a snapshot follow its request, until the answer.
func TestMessageLeavesSnapshotsAlone(t *testing.T) {
	var m message
	data := encoded(t, kindSnapshot, &raft.InstallSnapshotRequest{Size: 5})
	if err := m.read(append(data, strings.Repeat("\xc1", 100)...)); err != nil || !m.under() {
		t.Fatalf("%v %+v", err, m)
	}
	m.answered()
	if m.under() {
		t.Error("the answer does not end it")
	}
}

func TestMessageRefuses(t *testing.T) {
	many := append([]byte{0, 0x81, 0xa1, 'E', 0xdd, 0, 0x01, 0, 0}, bytes.Repeat([]byte{0x80}, 1<<16)...)
	flat := append([]byte{0, 0xdd, 0, 0, 0x1f, 0xff}, bytes.Repeat([]byte{0x91}, 1<<14)...)
	for name, c := range map[string]struct {
		data []byte
		want error
	}{
		"an unknown kind":       {[]byte("GET / HTTP/1.1\r\n"), errNoRequest},
		"a reserved byte":       {[]byte{0, 0xc1}, errNoRequest},
		"many entries":          {many, errTooMany},
		"many lists in lists":   {flat, errTooMany},
		"a list of 4 billion":   {[]byte{0, 0xdd, 0xff, 0xff, 0xff, 0xff}, errTooMany},
		"a map of 4 billion":    {[]byte{0, 0xdf, 0xff, 0xff, 0xff, 0xff}, errTooMany},
		"a text of 4 GiB":       {[]byte{1, 0xdb, 0xff, 0xff, 0xff, 0xff}, errTooLarge},
		"bytes of 4 GiB":        {[]byte{1, 0xc6, 0xff, 0xff, 0xff, 0xff}, errTooLarge},
		"an extension of 4 GiB": {[]byte{1, 0xc9, 0xff, 0xff, 0xff, 0xff}, errTooLarge},
		"two texts of 16 MiB":   {append(append([]byte{1, 0x92, 0xdb, 1, 0, 0, 0}, make([]byte, 1<<24)...), append([]byte{0xdb, 1, 0, 0, 0}, make([]byte, 1<<24)...)...), errTooLarge},
	} {
		var m message
		if err := m.read(c.data); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// The result does not depend on how the bytes are divided, and nothing panics.
func FuzzMessage(f *testing.F) {
	for name, data := range requests(f) {
		if name != "large entry" {
			f.Add(data, 3)
		}
	}
	f.Add([]byte{2, 0x81, 0xa1, 'x', 0xc7, 3, 1, 2, 3, 4}, 1)
	f.Fuzz(func(t *testing.T, data []byte, at int) {
		var whole, parts message
		err := whole.read(data)
		cut := 0
		if len(data) > 0 {
			cut = int(uint(at) % uint(len(data)))
		}
		first := parts.read(data[:cut])
		if first == nil {
			first = parts.read(data[cut:])
		}
		if !errors.Is(err, first) || err == nil && whole != parts {
			t.Fatalf("%v %+v; in two parts %v %+v", err, whole, first, parts)
		}
	})
}
