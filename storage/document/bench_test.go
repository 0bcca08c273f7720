package document_test

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage/document"
)

// hundredThousand returns a queue of 100 000 jobs of ordinary size, a tenth of them
// running.
var hundredThousand = sync.OnceValue(func() *fsm.View {
	var t testing.B
	m := fsm.New()
	for at := range 100 {
		op := &fsmpb.Enqueue{}
		for i := range 1000 {
			n := at*1000 + i
			op.Jobs = append(op.Jobs, &fsmpb.NewJob{
				Id:   fmt.Sprintf("0193c0de-%04x-7000-8000-%012x", n>>16, n),
				Type: "thumbnail",
				Payload: fmt.Appendf(nil, `{"bucket":"media","key":"uploads/%d.jpg","sizes":[64,256,1024],"options":{"quality":%d,`+
					`"strip":true,"note":"made by the upload service, keep the original"},"callback":"http://10.0.0.9:9000/done"}`, n, n%100),
			})
		}
		apply(&t, m, 1, 1_706_000_000_000, &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}})
	}
	apply(&t, m, 1, 1_706_000_000_001, claim("0193c0df-worker-1", "", 10_000))
	return m.View()
})

func BenchmarkEncode(b *testing.B) {
	c := document.Inline(hundredThousand())
	buf := document.Encode(c, header, "a:1", 5)
	b.SetBytes(int64(len(buf)))
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = document.AppendTo(buf[:0], c, header, "a:1", 5)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*100_000), "ns/job")
}

// BenchmarkEncodeSmall encodes a state that takes the 256 KiB that are inline by default.
func BenchmarkEncodeSmall(b *testing.B) {
	m := fsm.New()
	for n := 0; document.Fits(m.View(), 256<<10); n++ {
		apply(b, m, 1, 1_706_000_000_000, enqueue(newJob(fmt.Sprintf("0193c0de-7000-8000-%012x", n),
			fmt.Sprintf(`{"bucket":"media","key":"uploads/%d.jpg","sizes":[64,256,1024],"options":{"strip":true}}`, n))))
	}
	v := m.View()
	buf := document.Encode(document.Inline(v), header, "a:1", 5)
	b.Run("document", func(b *testing.B) {
		b.SetBytes(int64(len(buf)))
		for b.Loop() {
			buf, _ = document.AppendTo(buf[:0], document.Inline(v), header, "a:1", 5)
		}
	})
	b.Run("sum of the state", func(b *testing.B) {
		for b.Loop() {
			v.Hash()
		}
	})
	b.Run("sum of the document", func(b *testing.B) {
		for b.Loop() {
			sha256.Sum256(buf)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	data := document.Encode(document.Inline(hundredThousand()), header, "a:1", 5)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := document.Decode(data); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*100_000), "ns/job")
}

func BenchmarkMachine(b *testing.B) {
	doc, err := document.Decode(document.Encode(document.Inline(hundredThousand()), header, "a:1", 5))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := doc.Machine(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*100_000), "ns/job")
}
