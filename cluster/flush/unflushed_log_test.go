package flush

import (
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/storage/archive"
)

func at(i int) fsm.LSN { return fsm.LSN{Term: 1, Index: uint64(i)} }

// TestUnflushedLogAgainstAList compares the unflushed log with a plain list of all entries: Range
// returns exactly the requested entries, or reports that it cannot; the lag is exact.
func TestUnflushedLogAgainstAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := NewUnflushedLog(rapid.IntRange(0, 2000).Draw(t, "max"))
		var all []archive.Entry
		flushed, trimmed, index := 0, 0, 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				flushed = max(flushed, rapid.IntRange(0, index).Draw(t, "flushed"))
				j.Flushed(at(flushed))
			case 1:
				trimmed = max(trimmed, rapid.IntRange(0, flushed).Draw(t, "trimmed"))
				j.Trim(at(trimmed))
			default:
				index += rapid.IntRange(1, 3).Draw(t, "gap")
				e := archive.Entry{LSN: at(index), At: int64(index), Data: make([]byte, rapid.IntRange(0, 300).Draw(t, "size"))}
				all = append(all, e)
				j.Append(e)
			}
			checkLag(t, j, all, flushed)
			checkRange(t, j, all, rapid.IntRange(0, index).Draw(t, "after"), trimmed, index)
		}
	})
}

func checkLag(t *rapid.T, j *UnflushedLog, all []archive.Entry, flushed int) {
	var want Lag
	oldest := int64(0)
	for _, e := range all {
		if e.LSN.Compare(at(flushed)) > 0 {
			want.add(&e)
			if oldest == 0 {
				oldest = e.At
			}
		}
	}
	// Dropped unflushed entries count until all of them are flushed.
	if got := j.Lag(); got != want && j.lost.Entries == 0 {
		t.Fatalf("lag %+v, want %+v", got, want)
	}
	if got := j.OldestMs(); got != oldest && j.lost.Entries == 0 {
		t.Fatalf("oldest %d, want %d", got, oldest)
	}
	if j.lost.Entries > 0 && (j.Lag().Entries < want.Entries || j.OldestMs() > oldest || j.OldestMs() == 0) {
		t.Fatalf("lag %+v since %d, is at least %+v since %d", j.Lag(), j.OldestMs(), want, oldest)
	}
}

func checkRange(t *rapid.T, j *UnflushedLog, all []archive.Entry, after, trimmed, upTo int) {
	most := rapid.IntRange(0, 500).Draw(t, "most")
	got, more, ok := j.Range(at(after), at(upTo), most)
	if !ok {
		if len(j.held) > 0 && after >= trimmed && j.after.Compare(at(after)) <= 0 {
			t.Fatalf("entries after %d are held but not given", after)
		}
		return
	}
	var want []archive.Entry
	size, rest := 0, false
	for _, e := range all {
		if e.LSN.Compare(at(after)) <= 0 {
			continue
		}
		if len(want) > 0 && size+len(e.Data) > most {
			rest = true
			break
		}
		size += len(e.Data)
		want = append(want, e)
	}
	if len(got) != len(want) || more != rest {
		t.Fatalf("after %d: %d entries, more %v; want %d, %v", after, len(got), more, len(want), rest)
	}
	for i := range got {
		if got[i].LSN != want[i].LSN {
			t.Fatalf("entry %d is %s, want %s", i, got[i].LSN, want[i].LSN)
		}
	}
}

func TestUnflushedLogIsBounded(t *testing.T) {
	j := NewUnflushedLog(10_000)
	for i := 1; i <= 10_000; i++ {
		j.Append(archive.Entry{LSN: at(i), At: int64(i), Data: make([]byte, 100)})
		if j.bytes > 10_000 {
			t.Fatalf("%d bytes are held", j.bytes)
		}
	}
	if _, _, ok := j.Range(at(1), at(10_000), 1<<20); ok {
		t.Fatal("entries that were dropped are given")
	}
	if got := j.Lag(); got.Entries != 10_000 || got.Bytes != 1_000_000 || j.OldestMs() != 1 {
		t.Fatalf("lag %+v since %d", got, j.OldestMs())
	}
	j.Flushed(at(10_000))
	if got := j.Lag(); got != (Lag{}) || j.OldestMs() != 0 {
		t.Fatalf("lag %+v since %d after all was flushed", got, j.OldestMs())
	}
	j.Append(archive.Entry{LSN: at(10_001), Data: make([]byte, 1<<20)})
	if entries, _, ok := j.Range(at(10_000), at(10_001), 1); !ok || len(entries) != 1 {
		t.Fatal("the newest entry must be held, however large it is")
	}
	j.Reset(at(20_000))
	if _, _, ok := j.Range(at(10_001), at(20_000), 1); ok || j.Lag() != (Lag{}) {
		t.Fatal("a new state has no entries before it")
	}
}
