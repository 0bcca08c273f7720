package fsm_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// FuzzDecodeEntry checks that what is decoded can be applied to a machine with
// a past, and means the same when it is encoded again.
func FuzzDecodeEntry(f *testing.F) {
	b := everyKind(f)
	f.Add(entry(f, b))
	for _, mut := range b.Mutations {
		f.Add(entry(f, &fsmpb.Batch{NowMs: 5, Random: 7, Mutations: []*fsmpb.Mutation{mut}}))
	}
	for _, past := range eventfulPast() {
		f.Add(entry(f, past))
	}
	f.Add(entry(f, &fsmpb.Batch{NowMs: 5, Mutations: []*fsmpb.Mutation{by("é (b)", enqueue("new")), by("c", claim("w", 3))}}))
	f.Add([]byte{0x08, 0x02})
	past := snapshot(f, eventful(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := fsm.DecodeEntry(data)
		if err != nil {
			if b != nil || !errors.Is(err, fsm.ErrEntry) {
				t.Fatalf("batch %v, error %v", b, err)
			}
			return
		}
		again := sameEntry(t, b)
		m, restoredCopy := restored(t, past), restored(t, past)
		index := m.LSN().Index + 1
		if results := m.Apply(index, 1, b); len(results) != len(b.Mutations) {
			t.Fatalf("%d results for %d mutations", len(results), len(b.Mutations))
		}
		if err := m.CheckIndexes(); err != nil {
			t.Fatal(err)
		}
		restoredCopy.Apply(index, 1, again)
		if m.View().Hash() != restoredCopy.View().Hash() {
			t.Fatal("encoded again, the entry means something else")
		}
		goesFurther(t, m)
	})
}

// sameEntry encodes b, which was decoded, and reads it back: the two are equal,
// and so is what the second is encoded to.
func sameEntry(t *testing.T, b *fsmpb.Batch) *fsmpb.Batch {
	data := entry(t, b)
	back := decode(t, data)
	if !proto.Equal(b, back) {
		t.Fatalf("%v was encoded and read as %v", b, back)
	}
	if !bytes.Equal(entry(t, back), data) {
		t.Fatalf("%v has two encodings", b)
	}
	return decode(t, bytes.Clone(data))
}

func restored(t *testing.T, data []byte) *fsm.Machine {
	m, err := fsm.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// FuzzDecodeSnapshot checks that no stream makes a machine that is not
// consistent, or takes memory that the stream does not account for.
func FuzzDecodeSnapshot(f *testing.F) {
	data := snapshot(f, eventful(f))
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Add(snapshot(f, lived(f)))
	f.Add(snapshot(f, fsm.New()))
	f.Add([]byte("osqueue snapshot 1\n\xff\xff\xff\xff\x7f"))
	f.Fuzz(func(t *testing.T, data []byte) {
		decodeBounded(t, data)
		livesOn(t, decodeBounded(t, resum(data)))
	})
}

// The most that decoding may allocate: the buffers, and for each byte of the
// stream its share of a smallest record's trees and maps.
const (
	decodeBase    = 2 << 20
	decodePerByte = 1 << 10
)

// decodeBounded is nil for a stream that is refused.
func decodeBounded(t *testing.T, data []byte) *fsm.Machine {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m, err := fsm.Decode(bytes.NewReader(data))
	runtime.ReadMemStats(&after)
	if (m == nil) != (err != nil) || err != nil && !errors.Is(err, fsm.ErrSnapshot) {
		t.Fatalf("machine %v, error %v", m != nil, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > decodeBase+decodePerByte*uint64(len(data)) {
		t.Fatalf("%d bytes allocated for a stream of %d", used, len(data))
	}
	return m
}

// livesOn puts a machine, if there is one, to work. One that keeps more ended
// jobs than its settings allow is none that a log leads to: it drops them when
// the next job of the type ends.
func livesOn(t *testing.T, m *fsm.Machine) {
	if m == nil || m.CheckIndexes() != nil {
		return
	}
	readAll(m)
	goesOn(t, m)
	goesFurther(t, m)
}

// readAll calls everything that reads.
func readAll(m *fsm.Machine) {
	v := m.View()
	var jobs []*fsm.Job
	v.List(fsm.Index{}, allStatuses, 0, func(j *fsm.Job) bool { jobs = append(jobs, j); return true })
	for _, j := range jobs {
		v.List(fsm.Index{Type: &j.Type}, allStatuses, j.Seq, func(*fsm.Job) bool { return false })
		v.List(fsm.Index{Batch: j.Options().Batch}, allStatuses, 0, func(*fsm.Job) bool { return true })
		for _, tag := range j.Options().Tags {
			v.List(fsm.Index{Tag: tag}, allStatuses, 0, func(*fsm.Job) bool { return true })
		}
		_ = slices.Collect(v.HeldBy(j.Execution().Worker, 0))
		_ = v.Held(j.Execution().Worker)
		_ = m.Ready([]string{j.Type})
		_ = jobLine(j)
	}
	m.DueCrons(m.Now(), func(c *fsm.Cron) bool { _ = cronLine(c); return true })
	m.NextDeadline(nil)
	for _, scan := range []string{
		linesOf(v.Queues, queueLine), linesOf(v.Turns, turnLine), linesOf(v.Holds, holdLine),
		linesOf(v.Requests, requestLine), linesOf(v.Claims, claimLine), linesOf(v.Workers(""), workerLine),
		linesOf(v.Batches(""), batchLine), typeLines(m), wakeups(m),
	} {
		_ = scan
	}
}

// FuzzDamagedSnapshot is FuzzDecodeSnapshot near a stream that is whole: what
// is fuzzed is the damage.
func FuzzDamagedSnapshot(f *testing.F) {
	whole := snapshot(f, eventful(f))
	f.Add([]byte{})
	f.Add([]byte{0, 30, 200, 1, 0, 9, 0, 0, 0, 77, 3})
	f.Fuzz(func(t *testing.T, edits []byte) {
		livesOn(t, decodeBounded(t, resum(damaged(whole, edits))))
	})
}

// FuzzDamagedEntry does the same to a log entry that has everything.
func FuzzDamagedEntry(f *testing.F) {
	past := snapshot(f, eventful(f))
	whole := entry(f, everyKind(f))
	f.Add([]byte{})
	f.Add([]byte{0, 30, 200, 1, 0, 9, 0, 0, 0, 77, 3})
	f.Fuzz(func(t *testing.T, edits []byte) {
		b, err := fsm.DecodeEntry(damaged(whole, edits))
		if err != nil {
			return
		}
		m := restored(t, past)
		m.Apply(m.LSN().Index+1, 1, b)
		if err := m.CheckIndexes(); err != nil {
			t.Fatal(err)
		}
		goesFurther(t, m)
	})
}

// damaged is data with single bytes changed: each four bytes of edits say
// where, and to what.
func damaged(data, edits []byte) []byte {
	data = bytes.Clone(data)
	for ; len(edits) >= 4; edits = edits[4:] {
		at := int(binary.BigEndian.Uint16(edits)) % len(data)
		if edits[2]&1 == 0 {
			data[at] = edits[3]
		} else {
			data[at] += edits[3]
		}
	}
	return data
}
