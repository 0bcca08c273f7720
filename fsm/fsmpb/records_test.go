package fsmpb

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// TestRecountedHasAllFields sets each field of a batch to a value that is not zero.
func TestRecountedHasAllFields(t *testing.T) {
	b := new(JobBatch)
	m := b.ProtoReflect()
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		switch f.Kind() {
		case protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString("a"))
		case protoreflect.Int64Kind:
			m.Set(f, protoreflect.ValueOfInt64(1))
		case protoreflect.Uint64Kind:
			m.Set(f, protoreflect.ValueOfUint64(1))
		case protoreflect.Uint32Kind:
			m.Set(f, protoreflect.ValueOfUint32(1))
		case protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOfBool(true))
		default:
			m.Mutable(f)
		}
		if !m.Has(f) {
			t.Fatalf("%s is not set", f.Name())
		}
	}
	if c := b.Recounted(); c == b || !proto.Equal(b, c) {
		t.Errorf("the copy of %v is %v", b, c)
	}
}

func BenchmarkCopies(b *testing.B) {
	batch := &JobBatch{Id: "a", CreatedAtMs: 1, Total: 10, Completed: 2, Dead: 3, Callback: new(NewJob), Account: "b"}
	b.Run("copy", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Copy(batch)
		}
	})
	b.Run("recounted", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			batch.Recounted()
		}
	})
}
