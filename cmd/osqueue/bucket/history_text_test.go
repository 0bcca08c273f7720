package bucket

import (
	"strings"
	"testing"
	"time"

	"osqueue/fsm"
	"osqueue/storage/archive"
)

// A history may begin before the first entry, when the queue has no clock yet.
func TestHistoryFromTheBeginning(t *testing.T) {
	utc(t)
	until := time.Date(2026, 3, 1, 12, 0, 5, 0, time.UTC)
	span := archive.Span{Since: time.UnixMilli(0), To: fsm.LSN{Term: 2, Index: 5}, Until: until}
	want := "0-0 (the beginning) up to 2-5 (2026-03-01T12:00:05Z)"
	if got := spansText([]archive.Span{span}); !strings.HasSuffix(got, "\n  "+want) {
		t.Errorf("%s", got)
	}
	piece := spanOf(span)
	if got := strings.Join(piece.row(), "|"); got != "0-0|2-5|the beginning|2026-03-01 12:00:05 UTC|-" {
		t.Errorf("%s", got)
	}
	if got := (&statePoint{LSN: "0-0"}).text(until); got != "0-0, the beginning: empty" {
		t.Errorf("%s", got)
	}
}
