package figures

import "testing"

// The minutes of a day are kept, the newest one last; older ones are gone.
func TestHistoryOfADay(t *testing.T) {
	var h History
	for i := range int64(3 * HistoryMinutes) {
		h.At((100+i)*MinuteMs).Enqueued++
	}
	packed := h.Pack()
	if n := len(packed); n > 7*HistoryMinutes+10 {
		t.Errorf("a day takes %d bytes", n)
	}
	back, err := UnpackHistory(packed)
	if err != nil || back.Pack() != packed {
		t.Fatalf("unpacked: %v", err)
	}
	out := make([]Minute, 3*HistoryMinutes)
	back.AddTo(out, 100)
	for i, got := range out {
		if want := i >= 2*HistoryMinutes; (got.Enqueued == 1) != want {
			t.Fatalf("minute %d of %d: %+v", i, len(out), got)
		}
	}
}

// FuzzFigures reads any bytes as histogram and history: what is accepted is written again
// as it was.
func FuzzFigures(f *testing.F) {
	f.Add("\x05\x01", "\x03\x00\x01\x00\x00\x00\x00\x00\x02\x01\x00\x00\x00\x00\x00")
	f.Add("\x80\x00", "\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00\x01\x00\x00\x00\x00\x00")
	f.Fuzz(func(t *testing.T, wait, history string) {
		if h, err := UnpackHistogram(wait); err == nil && h.Pack() != wait {
			t.Errorf("%x is %x again", wait, h.Pack())
		}
		h, err := UnpackHistory(history)
		if err == nil && h.Pack() != history {
			t.Errorf("%x is %x again", history, h.Pack())
		}
		h.AddTo(make([]Minute, 3), 1)
	})
}
