package snapshot

import (
	"context"
	"testing"

	"osqueue/internal/storagetest/fault"
)

// BenchmarkTake writes snapshots of 8 MiB. A stalled upload must make no difference.
func BenchmarkTake(b *testing.B) {
	data := make([]byte, 8<<20)
	for _, hangs := range []bool{false, true} {
		name := "bucket idle"
		if hangs {
			name = "bucket hangs"
		}
		b.Run(name, func(b *testing.B) {
			bucket := fault.New(newBucket(b), 1)
			s := newStore(b, b.TempDir(), bucket)
			take(b, s, 1, 10)
			if hangs {
				ctx, cancel := context.WithCancel(b.Context())
				stuck := bucket.Inject(fault.Rule{Kind: fault.Stall})
				done := make(chan struct{})
				go func() {
					defer close(done)
					s.Run(ctx)
				}()
				defer func() {
					cancel()
					<-done
				}()
				if err := stuck.WaitHits(ctx, 1); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(data)))
			index := uint64(10)
			for b.Loop() {
				index++
				sink := begin(b, s, 1, index)
				if _, err := sink.Write(data); err != nil {
					b.Fatal(err)
				}
				if err := sink.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
