package fsm_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
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
	apply(t, m, 1004, setLimit("k*", &fsmpb.LimitRule{RateMilli: 1}), limitedJob("t", "g", "k1", "k"), limitedJob("t", "g", "k2", "k"), claim("w", 3))
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
	if m.View().Hash() != sha256.Sum256(buf.Bytes()[:buf.Len()-sha256.Size]) {
		t.Fatal("the hash of the state is not that of its snapshot")
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
	now := sum(m.Now(), 1)
	for i, muts := range [][]*fsmpb.Mutation{
		{claim("w2", 3), enqueue("new 1", "new 2")},
		{heartbeatByName("w2", "new 1", "a", "b", "c", "d"), heartbeatByName(fsm.Anonymous, "d"), heartbeatByName("w")},
		{registerWorker("w")},
		{registerBroker("n9", m.Meta().Epoch+1, fsm.DefaultSettings())},
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

// manyChunks is a machine with so many jobs of all kinds of memory that the decoder uses each of its
// chunks several times.
func manyChunks(t testing.TB) *fsm.Machine {
	const jobs, perEntry = 30_000, 1000
	m := fsm.New()
	apply(t, m, 1000, registerBroker("n1", 1, fsm.DefaultSettings()), registerWorker("w"))
	for from := 0; from < jobs; from += perEntry {
		op := &fsmpb.Enqueue{}
		for i := from; i < from+perEntry; i++ {
			n := &fsmpb.NewJob{Id: benchID(i), Type: typeOf(i / 100), Payload: fmt.Appendf(nil, "[%d]", i)}
			if i%3 == 0 {
				n.Optional().Tags, n.Optional().Group = []string{tagOf(i)}, groupOf(i)
			}
			op.Jobs = append(op.Jobs, n)
		}
		apply(t, m, 1001, &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}})
	}
	for i := range jobs / 5 / perEntry {
		for _, j := range apply(t, m, 1002, claimAs(fmt.Sprint("worker ", i), fmt.Sprint("request ", i), perEntry))[0].Jobs[:perEntry/2] {
			apply(t, m, 1003, fail(fmt.Sprint("worker ", i), j.ID, j.Execution().Token, "error of "+j.ID, false))
		}
	}
	return m
}

func TestSnapshotOfManyChunks(t *testing.T) {
	t.Parallel()
	m := manyChunks(t)
	data := snapshot(t, m)
	back, err := fsm.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if back.View().Hash() != m.View().Hash() {
		t.Fatal("the state changed on its way through a snapshot")
	}
	if err := back.CheckIndexes(); err != nil {
		t.Fatal(err)
	}
}

// Jobs are decoded at the same time, but the error is the first one of the stream.
func TestSnapshotReportsTheFirstDamage(t *testing.T) {
	t.Parallel()
	data := snapshot(t, manyChunks(t))
	rename := func(data []byte, from, to int) []byte {
		return bytes.ReplaceAll(data, []byte(benchID(from)), []byte(benchID(to)))
	}
	early := rename(data, 29_000, 28_000)
	both := rename(early, 29_900, 28_500)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"id twice":           {resum(early), benchID(28_000)},
		"two ids twice":      {resum(both), benchID(28_000)},
		"twice, then cut":    {early[:len(early)*9/10], benchID(28_000)},
		"cut":                {data[:len(data)*9/10], "truncated"},
		"cut early":          {data[:len(data)/10], "truncated"},
		"bit flipped in one": {flipped(data, benchID(29_500)), "checksum mismatch"},
	} {
		m, err := fsm.Decode(bytes.NewReader(c.data))
		if m != nil || !errors.Is(err, fsm.ErrSnapshot) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// flipped changes a text in a snapshot.
func flipped(data []byte, text string) []byte {
	damaged := bytes.Clone(data)
	damaged[bytes.Index(damaged, []byte(text))] ^= 1
	return damaged
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
	b := fsm.NewBuilder(&fsm.Meta{LastSeq: 1, Cluster: strings.Repeat("x", fsm.RecordMax)})
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
				v.List(fsm.Index{}, allStatuses, 0, func(*fsm.Job) bool { return true })
				_ = slices.Collect(v.Workers(""))
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
