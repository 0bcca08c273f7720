package blob_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"osqueue/storage/blob"
	"osqueue/storage/mem"
)

// jobsLike is a stream as a snapshot of many jobs is one.
func jobsLike(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "0193c0de-%04x-7000-8000-%012x thumbnail uploads/%d.jpg sizes 64 256 1024 %x\n", i>>16, i, i, noise(16))
	}
	return b.Bytes()[:n]
}

func BenchmarkWrite(b *testing.B) {
	data := jobsLike(64 << 20)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		w := blob.Create(b.Context(), mem.New(), prefix, 0)
		w.Write(data)
		if _, err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	data := jobsLike(64 << 20)
	bucket := mem.New()
	w := blob.Create(b.Context(), bucket, prefix, 1<<20)
	w.Write(data)
	m, err := w.Close()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		r, err := blob.Open(b.Context(), bucket, m.Key, &m.Sum)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}
