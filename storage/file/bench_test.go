package file

import (
	"bytes"
	"fmt"
	"testing"
)

// BenchmarkPutIfMatch replaces one object, fsyncs included.
func BenchmarkPutIfMatch(b *testing.B) {
	for _, size := range []int{1 << 10, 256 << 10} {
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			bucket, err := OpenDir(b.Context(), b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			data := bytes.Repeat([]byte("x"), size)
			w := bucket.PutIfAbsent(b.Context(), "k", data)
			for b.Loop() {
				if w = bucket.PutIfMatch(b.Context(), "k", data, w.Version); w.Err != nil {
					b.Fatal(w.Err)
				}
			}
		})
	}
}

func BenchmarkGet(b *testing.B) {
	bucket, err := OpenDir(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	bucket.PutIfAbsent(b.Context(), "k", make([]byte, 256<<10))
	for b.Loop() {
		if _, err := bucket.Get(b.Context(), "k"); err != nil {
			b.Fatal(err)
		}
	}
}
