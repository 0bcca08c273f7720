package fsm_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// lived is a machine in which everything occurs that a snapshot can hold.
func lived(t testing.TB) *fsm.Machine {
	m := fsm.New()
	apply(t, m, 1000, registerBroker("n1", 1, fsm.DefaultSettings()), registerWorker("w"))
	apply(t, m, 1001, enqueue("a", "b", "c", "d", "e"), enqueueAt(90_000, "later"))
	r := apply(t, m, 1002, claimAs("w", "request 1", 2), claim(fsm.Anonymous, 2))
	apply(t, m, 1003,
		complete("w", "a", r[0].Jobs[0].Execution().Token),
		fail("w", "b", r[0].Jobs[1].Execution().Token, "too bad", true),
		fail(fsm.Anonymous, "c", r[1].Jobs[0].Execution().Token, "once more", false))
	return m
}

func snapshot(t rapid.TB, m *fsm.Machine) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := m.View().Encode(&buf); err != nil {
		t.Fatal(err)
	}
	if size := m.View().EncodedSize(); size != int64(buf.Len()) {
		t.Fatalf("EncodedSize is %d for a snapshot of %d bytes", size, buf.Len())
	}
	return buf.Bytes()
}

// resum gives a damaged snapshot a matching checksum, to get past it.
func resum(data []byte) []byte {
	body := data[:max(0, len(data)-sha256.Size)]
	sum := sha256.Sum256(body)
	return append(bytes.Clone(body), sum[:]...)
}

func TestSnapshotRoundTrip(t *testing.T) {
	m := lived(t)
	data := snapshot(t, m)
	for name, r := range map[string]io.Reader{
		"whole":        bytes.NewReader(data),
		"byte by byte": iotest.OneByteReader(bytes.NewReader(data)),
		"with the end": iotest.DataErrReader(bytes.NewReader(data)),
	} {
		back, err := fsm.Decode(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if back.View().Hash() != m.View().Hash() || !bytes.Equal(snapshot(t, back), data) {
			t.Fatalf("%s: the state changed on its way through a snapshot", name)
		}
		if err := back.CheckIndexes(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

func TestSnapshotRefusesEveryDamage(t *testing.T) {
	data := snapshot(t, lived(t))
	refused := func(what string, at int, damaged []byte) {
		t.Helper()
		if m, err := fsm.Decode(bytes.NewReader(damaged)); m != nil || !errors.Is(err, fsm.ErrSnapshot) {
			t.Fatalf("%s at %d of %d: machine %v, error %v", what, at, len(data), m != nil, err)
		}
	}
	for at := range data {
		refused("cut", at, data[:at])
		for bit := range 8 {
			damaged := bytes.Clone(data)
			damaged[at] ^= 1 << bit
			refused("flipped bit", at, damaged)
		}
		refused("byte added", at, bytes.Join([][]byte{data[:at], {0x80}, data[at:]}, nil))
		refused("byte lost", at, bytes.Join([][]byte{data[:at], data[at+1:]}, nil))
	}
	refused("goes on", len(data), append(bytes.Clone(data), 0))
}

// A length may be written in more bytes than it needs. The checksum of such a stream must
// differ.
func TestSnapshotChecksumCoversLengths(t *testing.T) {
	data := snapshot(t, lived(t))
	at := len("osqueue snapshot 1\n")
	size, n := binary.Uvarint(data[at:])
	longer := []byte{byte(size) | 0x80, byte(size>>7) | 0x80, 0}
	damaged := bytes.Join([][]byte{data[:at], longer, data[at+n:]}, nil)
	if _, err := fsm.Decode(bytes.NewReader(damaged)); !errors.Is(err, fsm.ErrSnapshot) {
		t.Fatalf("error %v", err)
	}
	if _, err := fsm.Decode(bytes.NewReader(resum(damaged))); err != nil {
		t.Fatalf("the test does not test the checksum: %v", err)
	}
}

// A newer node may write what this one would lose.
func TestSnapshotWithUnknownFieldsIsRefused(t *testing.T) {
	data := snapshot(t, fsm.New())
	at := len("osqueue snapshot 1\n")
	size, n := binary.Uvarint(data[at:])
	record := append(bytes.Clone(data[at+n:at+n+int(size)]), 0xa0, 0x1f, 0x01) // field 500
	newer := bytes.Join([][]byte{
		data[:at], binary.AppendUvarint(nil, uint64(len(record))), record, make([]byte, sha256.Size),
	}, nil)
	if _, err := fsm.Decode(bytes.NewReader(resum(newer))); err == nil || !strings.Contains(err.Error(), "upgrade") {
		t.Fatalf("error %v", err)
	}
}

// TestSnapshotDamagePastTheChecksum looks behind the checksum: whatever a
// record says, decoding ends without a panic, and a machine that comes out
// is consistent and works.
func TestSnapshotDamagePastTheChecksum(t *testing.T) {
	data := snapshot(t, lived(t))
	rapid.Check(t, func(t *rapid.T) {
		damaged := bytes.Clone(data)
		for range 1 + roll(t, 3, "times") {
			at := roll(t, len(damaged)-sha256.Size, "at")
			damaged[at] = rapid.Byte().Draw(t, "byte")
		}
		m, err := fsm.Decode(bytes.NewReader(resum(damaged)))
		if err != nil {
			if m != nil || !errors.Is(err, fsm.ErrSnapshot) {
				t.Fatalf("machine %v, error %v", m != nil, err)
			}
			return
		}
		goesOn(t, m)
	})
}

// goesOn runs a restored machine, and one restored from it, through a few
// entries.
func goesOn(t rapid.TB, m *fsm.Machine) {
	t.Helper()
	restoredCopy := copyOf(t, m)
	now := sum(m.Meta().Now, 1)
	for i, muts := range [][]*fsmpb.Mutation{
		{claim("w2", 3), enqueue("new 1", "new 2")},
		{heartbeatByName("w2", "new 1", "a", "b", "c", "d"), heartbeatByName(fsm.Anonymous, "d"), heartbeatByName("w")},
		{registerWorker("w")},
		{registerBroker("n9", m.Meta().Broker.Epoch+1, fsm.DefaultSettings())},
		{release("w2", "new 1", 0), complete("w2", "new 2", 0)},
		nil,
	} {
		for _, m := range []*fsm.Machine{m, restoredCopy} {
			m.Apply(uint64(i), 1<<40, decode(t, entry(t, &fsmpb.Batch{NowMs: now, Mutations: muts})))
			if err := m.CheckIndexes(); err != nil {
				t.Fatalf("step %d: %v", i, err)
			}
		}
		if m.View().Hash() != restoredCopy.View().Hash() {
			t.Fatalf("step %d: a restart made a difference", i)
		}
		now = sum(now, 31_000)
	}
}

// A damaged length must not cost memory that the stream does not fill.
func TestSnapshotMemoryIsBounded(t *testing.T) {
	data := []byte("osqueue snapshot 1\n")
	data = binary.AppendUvarint(data, fsm.RecordMax)
	data = append(data, make([]byte, 100)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := fsm.Decode(bytes.NewReader(data))
	runtime.ReadMemStats(&after)
	if !errors.Is(err, fsm.ErrSnapshot) {
		t.Fatal(err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
		t.Fatalf("%d bytes allocated for a stream of %d", used, len(data))
	}
}

func TestSnapshotReportsTheWritersError(t *testing.T) {
	full := errors.New("disk full")
	err := lived(t).View().Encode(writerFunc(func([]byte) (int, error) { return 0, full }))
	if !errors.Is(err, full) {
		t.Fatalf("error %v", err)
	}
}

func TestSnapshotReportsTheReadersError(t *testing.T) {
	data, broken := snapshot(t, lived(t)), errors.New("disk gone")
	for _, n := range []int{0, 30, 200, len(data) - 3, len(data)} {
		_, err := fsm.Decode(io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) {
			t.Errorf("after %d bytes: error %v", n, err)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A snapshot with a record that no reader would take must not replace one that
// works.
func TestSnapshotOfATooLargeRecordFails(t *testing.T) {
	b := fsm.NewBuilder(fsm.Meta{LastSeq: 1, Cluster: strings.Repeat("x", fsm.RecordMax)})
	if err := b.Machine().View().Encode(io.Discard); err == nil {
		t.Fatal("a record was written that cannot be read")
	}
}

// TestViewsAreReadBesideApply is for the race detector: other goroutines read views while
// the machine applies entries.
func TestViewsAreReadBesideApply(t *testing.T) {
	m := lived(t)
	var readers sync.WaitGroup
	defer readers.Wait()
	for i := range 50 {
		v := m.View()
		hash := v.Hash()
		for range 2 {
			readers.Go(func() {
				if v.Hash() != hash {
					t.Error("a view changed while it was read")
				}
				v.Merged(allStatuses, 0, func(*fsm.Job) bool { return true })
				v.Workers(func(*fsm.Worker) bool { return true })
				v.Claims(func(*fsm.ClaimRecord) bool { return true })
			})
		}
		now := int64(2000 + 700*i)
		for n := range 5 {
			j := string(rune('A'+n)) + string(rune('a'+i))
			apply(t, m, now, enqueue(j), claimAs("w", j, 1), heartbeatByName("w", j), registerWorker("v"+j))
			apply(t, m, now, complete("w", j, 0))
		}
	}
}
