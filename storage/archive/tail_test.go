package archive

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/storage/document"
)

// readBack returns the entries of a tail.
func readBack(t *document.Tail) ([]Entry, error) {
	var got []Entry
	err := new(runReader).tail(t, func(e Entry) error {
		e.Data = bytes.Clone(e.Data)
		got = append(got, e)
		return nil
	})
	return got, err
}

// TestTail takes frames at random moments. Each frame must have exactly the entries before it,
// also after more entries were appended.
func TestTail(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		after := fsm.LSN{Term: rapid.Uint64Range(0, 3).Draw(t, "term"), Index: rapid.Uint64().Draw(t, "index")}
		tail := NewTail(after)
		var all []Entry
		var frames []document.Tail
		var counts []int
		lsn, at := after, rapid.Int64Range(0, 1<<60).Draw(t, "start")
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			if once(t, 3, "frame") {
				frames, counts = append(frames, tail.Frame()), append(counts, len(all))
				if once(t, 3, "resume") {
					resumed, err := ResumeTail(&frames[len(frames)-1])
					if err != nil {
						t.Fatal(err)
					}
					tail = resumed
				}
				continue
			}
			lsn.Term += rapid.Uint64Range(1, 1<<40).Draw(t, "terms on")
			lsn.Index = rapid.Uint64().Draw(t, "index")
			at += rapid.Int64Range(0, 1000).Draw(t, "pass")
			e := Entry{LSN: lsn, At: at, Data: randomData(t)}
			if err := tail.Append(e); err != nil {
				t.Fatal(err)
			}
			e.Data = bytes.Clone(e.Data)
			all = append(all, e)
		}
		frames, counts = append(frames, tail.Frame()), append(counts, len(all))
		for i := range frames {
			checkFrame(t, &frames[i], after, all[:counts[i]])
		}
		if run := frames[len(frames)-1].Run; tail.Run() != run || tail.Len() != run.Entries || tail.Raw() != run.Raw {
			t.Fatalf("the tail says %+v, its frame %+v", tail.Run(), run)
		}
		if got, want := tail.Stored(), len(frames[len(frames)-1].Data); got != want {
			t.Fatalf("%d bytes are said to be stored, and %d are", got, want)
		}
	})
}

// randomData is sometimes too large for the encoder to wait for a Flush.
func randomData(t *rapid.T) []byte {
	if once(t, 20, "large") {
		size := rapid.IntRange(0, 3*blockBytes).Draw(t, "size")
		data := make([]byte, size)
		for i, x := 0, rapid.Uint64().Draw(t, "seed"); i < size; i++ {
			x = x*6364136223846793005 + 1442695040888963407
			data[i] = byte(x >> 60)
		}
		return data
	}
	return rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "data")
}

func checkFrame(t *rapid.T, frame *document.Tail, after fsm.LSN, want []Entry) {
	t.Helper()
	got, err := readBack(frame)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(got, want, sameEntry) {
		t.Fatalf("%d entries come back of %d, or others", len(got), len(want))
	}
	if frame.After != after || frame.Entries != uint64(len(want)) {
		t.Fatalf("the run is %+v", frame.Run)
	}
	checkpoint := &document.Archive{Checkpoint: document.Checkpoint{Key: "k", LSN: after}, Tail: *frame}
	if err := checkpoint.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestTailRefusesWhatCannotFollow(t *testing.T) {
	t.Parallel()
	at := func(term, index uint64, at int64) Entry { return Entry{LSN: fsm.LSN{Term: term, Index: index}, At: at} }
	for _, c := range []struct {
		name string
		then Entry
	}{
		{"the same entry", at(3, 8, 50)},
		{"an older one", at(3, 7, 60)},
		{"an older term", at(2, 900, 60)},
		{"a clock that goes back", at(3, 9, 49)},
		{"no clock", at(3, 9, -1)},
	} {
		tail := NewTail(fsm.LSN{Term: 3, Index: 7})
		if err := tail.Append(at(3, 8, 50)); err != nil {
			t.Fatal(err)
		}
		before := tail.Frame()
		if tail.Append(c.then) == nil {
			t.Errorf("%s is taken", c.name)
		}
		if after := tail.Frame(); after.Run != before.Run || !bytes.Equal(after.Data, before.Data) {
			t.Errorf("%s has changed the tail", c.name)
		}
	}
	if NewTail(fsm.LSN{Term: 3, Index: 7}).Append(at(3, 7, 0)) == nil {
		t.Error("the entry before the first is taken for the first")
	}
}

// TestDamagedTail checks that any change of a tail is an error.
func TestDamagedTail(t *testing.T) {
	t.Parallel()
	tail := NewTail(fsm.LSN{Term: 1, Index: 5})
	must(tail.Append(plainEntries(fsm.LSN{Term: 1, Index: 5}, 20)...))
	whole := tail.Frame()
	if _, err := readBack(&whole); err != nil {
		t.Fatal(err)
	}
	check := func(what string, damaged document.Tail) {
		t.Helper()
		_, err := ResumeTail(&damaged)
		if !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range whole.Data {
		d := whole
		d.Data = bytes.Clone(whole.Data)
		d.Data[i] ^= 0x10
		if got, err := readBack(&d); err == nil && len(got) == 20 {
			continue // in bits that a frame has for nothing
		}
		check(fmt.Sprint("byte ", i), d)
		d.Data = whole.Data[:i]
		check(fmt.Sprint("cut at ", i), d)
	}
	for what, change := range map[string]func(*document.Tail){
		"sum":     func(t *document.Tail) { t.Sum[0]++ },
		"after":   func(t *document.Tail) { t.After.Index = t.Last.Index },
		"last":    func(t *document.Tail) { t.Last.Index++ },
		"from":    func(t *document.Tail) { t.From++ },
		"until":   func(t *document.Tail) { t.Until++ },
		"entries": func(t *document.Tail) { t.Entries-- },
		"more":    func(t *document.Tail) { t.Entries++ },
		"raw":     func(t *document.Tail) { t.Raw-- },
		"longer":  func(t *document.Tail) { t.Raw++ },
		"empty":   func(t *document.Tail) { t.Data = nil },
	} {
		d := whole
		change(&d)
		check(what, d)
	}
}

// TestBomb checks that a frame is not read beyond the size in its run. It is not parallel,
// because it counts allocations.
func TestBomb(t *testing.T) {
	tail := NewTail(fsm.LSN{})
	must(tail.Append(Entry{LSN: fsm.LSN{Index: 1}, Data: make([]byte, 64<<20)}))
	bomb := tail.Frame()
	bomb.Raw = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := ResumeTail(&bomb)
	runtime.ReadMemStats(&after)
	if !errors.Is(err, ErrDamaged) {
		t.Errorf("%v", err)
	}
	if got := after.TotalAlloc - before.TotalAlloc; got > 4<<20 {
		t.Errorf("%d bytes are allocated for a frame that says it has 100", got)
	}
}

// TestFrameForOthers lets the reference implementation read the frames.
func TestFrameForOthers(t *testing.T) {
	t.Parallel()
	zstd, err := exec.LookPath("zstd")
	if err != nil {
		t.Skip("there is no zstd here")
	}
	tail := NewTail(fsm.LSN{})
	var raw []byte
	for i, e := range plainEntries(fsm.LSN{}, 2000) {
		must(tail.Append(e))
		raw = append(e.appendHead(raw), e.Data...)
		if i%97 != 0 && i != 1999 {
			continue
		}
		cmd := exec.CommandContext(t.Context(), zstd, "-d", "-c", "--memory=256KB")
		cmd.Stdin = bytes.NewReader(tail.Frame().Data)
		got, err := cmd.Output()
		if err != nil || !bytes.Equal(got, raw) {
			t.Fatalf("after %d entries zstd reads %d bytes of %d: %v", i+1, len(got), len(raw), err)
		}
	}
}
