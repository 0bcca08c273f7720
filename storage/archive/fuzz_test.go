package archive

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"
	"testing/synctest"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/document"
	"osqueue/storage/mem"
)

// FuzzEntries checks that bytes which are read as entries are written again identically.
func FuzzEntries(f *testing.F) {
	var some []byte
	for _, e := range plainEntries(fsm.LSN{Term: 300, Index: 1 << 40}, 3) {
		some = append(e.appendHead(some), e.Data...)
	}
	f.Add(some)
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte{0x80, 0, 0, 0, 0})
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01\x01\x80\x80\x80\x80\x04"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := entryReader{in: bufio.NewReader(bytes.NewReader(data))}
		var again []byte
		for {
			e, err := r.next()
			if errors.Is(err, io.EOF) {
				if !bytes.Equal(again, data) {
					t.Fatalf("%x is read, %x written", data, again)
				}
				return
			}
			if err != nil {
				if !bytes.HasPrefix(data, again) {
					t.Fatalf("%x is read, %x written", data, again)
				}
				return
			}
			again = append(e.appendHead(again), e.Data...)
		}
	})
}

// FuzzTail reads a frame that may be anything, with a run that says it is.
func FuzzTail(f *testing.F) {
	tail := NewTail(fsm.LSN{Term: 1})
	must(tail.Append(plainEntries(fsm.LSN{Term: 1}, 4)...))
	frame := tail.Frame()
	f.Add(frame.Data, frame.Raw, uint64(4), uint64(4))
	f.Add([]byte{}, int64(0), uint64(0), uint64(0))
	f.Add([]byte{}, int64(1), uint64(1), uint64(1))
	f.Add(frame.Data[:20], frame.Raw, uint64(4), uint64(4))
	f.Fuzz(func(t *testing.T, data []byte, raw int64, entries, last uint64) {
		run := frame.Run
		run.Raw, run.Entries, run.Last.Index = raw, entries, last
		got, n := int64(0), uint64(0)
		err := new(runReader).read(data, &run, nil, func(e Entry) error {
			n++
			got += int64(len(e.appendHead(nil)) + len(e.Data))
			return nil
		})
		if err == nil && (got != raw || n != entries) {
			t.Fatalf("%d entries of %d bytes pass for %d of %d", n, got, entries, raw)
		}
		if raw >= 0 && got > raw+1 {
			t.Fatalf("%d bytes are read of a frame that should have %d", got, raw)
		}
	})
}

// FuzzSegment opens an object with a valid checksum, and reads it.
func FuzzSegment(f *testing.F) {
	ref, object := segmentOf(fsm.LSN{Term: 4, Index: 17}, 5)
	f.Add(object[:len(object)-32])
	f.Add([]byte(segmentMagic + "{}\nx"))
	f.Add([]byte(segmentMagic + `{"lineage":"l","after":"1-1","last":"1-2","from":0,"until":0,"entries":1,"raw":-1}` + "\nx"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := openSegment(seal(bytes.Clone(data)), ref.Key, nil)
		if err != nil {
			return
		}
		if _, err := s.read(); err != nil {
			return
		}
		if s.run.After != ref.After || s.run.Last != ref.Last || s.run.Until != ref.Until {
			t.Fatalf("%+v under the key %s", s.run, ref.Key)
		}
	})
}

// FuzzSegmentIndex opens an object with a valid checksum, and checks that the results are
// consistent.
func FuzzSegmentIndex(f *testing.F) {
	ref, object, _ := segmentIndexOf(fsm.LSN{Term: 4, Index: 17}, 1, 1)
	f.Add(object[:len(object)-32])
	f.Add([]byte(segmentIndexMagic + "{}\n"))
	f.Add([]byte(segmentIndexMagic + `{"lineage":"` + lineage + `","refs":[{}]}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		refs, err := openSegmentIndex(seal(bytes.Clone(data)), ref.Key, nil)
		if err != nil {
			return
		}
		a := document.Archive{
			Checkpoint: document.Checkpoint{Key: "k", LSN: ref.After}, Log: refs,
			Tail: document.Tail{Run: document.Run{After: ref.Last, Last: ref.Last}},
		}
		if err := a.Check(); err != nil {
			t.Fatal(err)
		}
		whole, object := SegmentIndex(lineage, refs)
		again, err := openSegmentIndex(object, whole.Key, &whole)
		if err != nil || !reflect.DeepEqual(again, refs) {
			t.Fatalf("%+v came back as %+v (%v)", refs, again, err)
		}
	})
}

// FuzzCheckpoint reads a checkpoint whose manifest may be anything, under the key of a good
// one and with its parts. A state that is read is the one that was written: the manifest
// cannot change it.
func FuzzCheckpoint(f *testing.F) {
	good := mem.New()
	m := fsm.New()
	checkpoint, err := WriteCheckpoint(f.Context(), good, lineage, fsm.LSN{}, m.View())
	if err != nil {
		f.Fatal(err)
	}
	manifest, err := good.Get(f.Context(), checkpoint.Key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(manifest.Data)
	f.Add(bytes.Replace(manifest.Data, []byte(lineage), []byte("another"), 1))
	f.Add(bytes.Replace(manifest.Data, []byte(`"bytes": `), []byte(`"bytes": 9`), 1))
	f.Add(bytes.Replace(manifest.Data, []byte(`"raw": `), []byte(`"raw": 99999999`), 1))
	f.Add(stateMember.ReplaceAll(manifest.Data, []byte(`,"state":"00"`)))
	f.Add([]byte(`null`))
	p := point{lsn: checkpoint.LSN, prev: checkpoint.Prev, at: checkpoint.At, key: checkpoint.Key}
	f.Fuzz(func(t *testing.T, data []byte) {
		synctest.Test(t, func(t *testing.T) { // damage is looked at three times, with pauses
			if err := good.Delete(t.Context(), checkpoint.Key); err != nil {
				t.Fatal(err)
			}
			if w := good.PutIfAbsent(t.Context(), checkpoint.Key, data); w.Outcome != storage.Committed {
				t.Fatalf("%+v", w)
			}
			got, err := readCheckpoint(t.Context(), good, p, 0)
			if err == nil && got.View().Hash() != m.View().Hash() {
				t.Fatalf("another state is read: %+v", got.Meta())
			}
			if bytes.Equal(data, manifest.Data) && err != nil {
				t.Fatal(err)
			}
			if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, fsm.ErrDiverged) {
				t.Fatalf("no damage, but an error of the store: %v", err)
			}
		})
	})
}
