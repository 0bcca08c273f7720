package archive

import (
	"fmt"
	"io"
	"slices"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
	"osqueue/storage/document"
	"osqueue/storage/mem"
)

// BenchmarkReadSmall reads runs of few entries, as a small document's tail is.
func BenchmarkReadSmall(b *testing.B) {
	for _, n := range []int{1, 100, 2000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			tail := NewTail(fsm.LSN{})
			must(tail.Append(plainEntries(fsm.LSN{}, n)...))
			frame := tail.Frame()
			b.SetBytes(frame.Raw)
			b.ReportAllocs()
			for b.Loop() {
				must(new(runReader).tail(&frame, func(Entry) error { return nil }))
			}
		})
	}
}

// jobsOfBench returns a queue of a million jobs, or with -short of ten thousand.
func jobsOfBench() int {
	if testing.Short() {
		return 10_000
	}
	return 1_000_000
}

// benchBatch returns an entry with jobs of about 200 bytes.
func benchBatch(first, n int) []byte {
	op := &fsmpb.Enqueue{}
	for i := range n {
		id := fmt.Sprintf("01890a5d-ac96-774b-bcce-%012x", uint64(first+i)*0x9e3779b97f4a7c15>>16)
		op.Jobs = append(op.Jobs, &fsmpb.NewJob{Id: id, Type: "mail", Payload: fmt.Appendf(nil,
			`{"to":"user%d@example.com","template":"welcome","locale":"en","variables":{"order":%d,"token":"%x","total":"%d.90"}}`,
			(first+i)%7919, first+i, uint64(first+i)*0xbf58476d1ce4e5b9, i)})
	}
	data, err := fsm.EncodeEntry(&fsmpb.Batch{NowMs: 1_700_000_000_000 + int64(first), Mutations: []*fsmpb.Mutation{
		{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}},
	}})
	must(err)
	return data
}

// benchLog returns jobs in entries of the given size, as a machine applies them.
func benchLog(jobs, each int) (*fsm.Machine, []Entry) {
	m := fsm.New()
	var entries []Entry
	for first := 0; first < jobs; first += each {
		data := benchBatch(first, each)
		batch, err := fsm.DecodeEntry(slices.Clone(data))
		must(err)
		m.Apply(m.Meta().LSN.Index+1, 1, batch)
		entries = append(entries, Entry{LSN: m.Meta().LSN, At: m.Meta().Now, Data: data})
	}
	return m, entries
}

// benchArchive stores the entries in segments of 128 KiB each.
func benchArchive(b *testing.B, bucket storage.Bucket, entries []Entry) *document.Archive {
	b.Helper()
	checkpoint, err := WriteCheckpoint(b.Context(), bucket, lineage, fsm.LSN{}, fsm.New().View())
	must(err)
	a := &document.Archive{Checkpoint: checkpoint}
	tail := NewTail(fsm.LSN{})
	for _, e := range entries {
		must(tail.Append(e))
		if tail.Stored() < 128<<10 || len(tail.Frame().Data) < 128<<10 {
			continue
		}
		ref, object := Segment(lineage, tail.Frame())
		must(Put(b.Context(), bucket, ref.Key, object))
		a.Log, tail = append(a.Log, ref), NewTail(ref.Last)
	}
	a.Tail = tail.Frame()
	return a
}

// BenchmarkReplay loads a state from its log alone.
func BenchmarkReplay(b *testing.B) {
	for _, each := range []int{1, 100} {
		b.Run(fmt.Sprintf("%d a entry", each), func(b *testing.B) {
			bucket := mem.New()
			m, entries := benchLog(jobsOfBench()/10, each)
			a := benchArchive(b, bucket, entries)
			raw := a.Tail.Raw
			for i := range a.Log {
				raw += a.Log[i].Raw
			}
			b.SetBytes(raw)
			b.ReportAllocs()
			for b.Loop() {
				got, err := load(b.Context(), bucket, a, 0)
				if err != nil || got.Counts() != m.Counts() {
					b.Fatal(err)
				}
			}
			perSecond := float64(b.N) / b.Elapsed().Seconds()
			b.ReportMetric(perSecond*float64(len(entries)), "entries/s")
			b.ReportMetric(perSecond*float64(jobsOfBench()/10), "jobs/s")
			b.ReportMetric(float64(len(a.Log)), "segments")
		})
	}
}

// BenchmarkCheckpoint writes and loads the checkpoint of a deep queue.
func BenchmarkCheckpoint(b *testing.B) {
	bucket := mem.New()
	m, _ := benchLog(jobsOfBench(), 100)
	var checkpoint document.Checkpoint
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var err error
			checkpoint, err = WriteCheckpoint(b.Context(), bucket, lineage, fsm.LSN{}, m.View())
			must(err)
			b.SetBytes(checkpoint.Raw)
		}
		b.ReportMetric(float64(checkpoint.Stored), "stored-B")
	})
	b.Run("load", func(b *testing.B) {
		a := &document.Archive{Checkpoint: checkpoint, Tail: NewTail(checkpoint.LSN).Frame()}
		b.SetBytes(checkpoint.Raw)
		b.ReportAllocs()
		for b.Loop() {
			got, err := load(b.Context(), bucket, a, 0)
			if err != nil || got.Counts() != m.Counts() {
				b.Fatal(err)
			}
		}
	})
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			must(m.View().Encode(io.Discard))
			b.SetBytes(checkpoint.Raw)
		}
	})
}

// BenchmarkTail appends entries and takes a frame after every few, as a flusher
// does, and cuts as it does.
func BenchmarkTail(b *testing.B) {
	_, entries := benchLog(100_000, 10)
	for _, flush := range []int{1, 20} {
		b.Run(fmt.Sprintf("frame each %d", flush), func(b *testing.B) {
			b.ReportAllocs()
			raw, stored := int64(0), int64(0)
			tail, i := NewTail(fsm.LSN{}), 0
			for b.Loop() {
				if i%len(entries) == 0 {
					tail = NewTail(fsm.LSN{})
				}
				must(tail.Append(entries[i%len(entries)]))
				if i++; i%flush == 0 {
					if len(tail.Frame().Data) > 128<<10 {
						raw, stored = raw+tail.Raw(), stored+int64(tail.Stored())
						tail = NewTail(tail.Run().Last)
					}
				}
			}
			if raw > 0 {
				b.ReportMetric(float64(stored)/float64(raw), "ratio")
			}
		})
	}
}
