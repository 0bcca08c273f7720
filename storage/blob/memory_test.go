package blob_test

import (
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"osqueue/internal/storagetest/fault"
	"osqueue/internal/storagetest/recording"
	"osqueue/storage"
	"osqueue/storage/blob"
)

// TestWriterHolds: while the store does not answer, a writer takes in no more than
// the parts under way, one that is full, and what the compression holds.
func TestWriterHolds(t *testing.T) {
	const part, compression = 1 << 20, 1 << 20
	const parallel = 2
	inBubble(t, "parallel", func(t *testing.T, b *fault.Bucket, _ *recording.Bucket) {
		stall := b.Inject(fault.Rule{Kind: fault.Stall})
		w := blob.Create(t.Context(), b, prefix, part)
		var taken atomic.Int64
		done := make(chan error, 1)
		go func() {
			for piece := range piecesOf(noise(10*part), 1000) {
				if _, err := w.Write(piece); err != nil {
					done <- err
					return
				}
				taken.Add(int64(len(piece)))
			}
			_, err := w.Close()
			done <- err
		}()
		synctest.Wait()
		most := int64(parallel+1)*part + compression
		if stall.Hits() != parallel || taken.Load() > most || taken.Load() < int64(parallel)*part {
			t.Errorf("%d uploads under way, %d bytes taken in of at most %d", stall.Hits(), taken.Load(), most)
		}
		stall.Release(t.Context())
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// TestReaderHolds: a reader fetches two parts beyond the one that it is at.
func TestReaderHolds(t *testing.T) {
	inBubble(t, "parts", func(t *testing.T, b *fault.Bucket, _ *recording.Bucket) {
		m := mustWrite(t, b, noise(4<<20), 300<<10)
		gets := b.Inject(fault.Rule{Kind: fault.Slow, Ops: []storage.Op{storage.OpGet}})
		r, err := blob.Open(t.Context(), b, m.Key, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		synctest.Wait()
		if gets.Hits() != 1 {
			t.Fatalf("%d objects were fetched before the first read", gets.Hits())
		}
		for i := range m.Parts { // 300 000 bytes are a little less than a part
			if _, err := io.CopyN(io.Discard, r, 300_000); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if n := gets.Hits() - 1; n > i+1+1+2 { // a block may reach into the next part
				t.Fatalf("%d parts were fetched while the reader is in the %d. one", n, i+1)
			}
			if i == 3 {
				break
			}
		}
		if gets.Hits() < 1+4+2 {
			t.Fatalf("only %d parts were fetched: it does not read ahead", gets.Hits()-1)
		}
	})
}
