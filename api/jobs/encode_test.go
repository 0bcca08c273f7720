package jobs

import (
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm"
)

func TestCursors(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seq := rapid.Uint64().Draw(rt, "seq")
		if got, err := readCursor(false, cursorOf(false, seq)); err != nil || got != seq {
			rt.Fatalf("%d came back as %d, %v", seq, got, err)
		}
		junk := rapid.String().Draw(rt, "junk")
		_, _ = readCursor(false, junk) // must not panic
		place := fsm.Place{Status: rapid.SampledFrom(allStatuses).Draw(rt, "status"), Seq: seq}
		if got, err := readPlaceCursor(placeCursorOf(place)); err != nil || got != place {
			rt.Fatalf("%v came back as %v, %v", place, got, err)
		}
		_, _ = readPlaceCursor(junk)
		// The kinds of cursors are distinct.
		if _, err := readPlaceCursor(cursorOf(false, seq)); err == nil {
			rt.Fatal("a place in a list was taken for one of a change")
		}
		if _, err := readCursor(false, placeCursorOf(place)); err == nil {
			rt.Fatal("a place of a change was taken for one in a list")
		}
	})
}
