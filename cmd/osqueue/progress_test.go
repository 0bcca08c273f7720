package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestBar(t *testing.T) {
	for want, c := range map[string]struct {
		figures jobFigures
		took    time.Duration
	}{
		"[........................] 0/10":                           {jobFigures{total: 10, sent: 4}, time.Minute},
		"[############............] 5/10  1 failed  2.5/s  2s left": {jobFigures{total: 10, sent: 10, ended: 5, failed: 1}, 2 * time.Second},
		"[########################] 10/10  10/s":                    {jobFigures{total: 10, sent: 10, ended: 10}, time.Second},
		"[########################] 12/10  12/s":                    {jobFigures{total: 10, sent: 12, ended: 12}, time.Second}, // the file has grown
		"5 ended, 3 not yet  0.5/s":                                 {jobFigures{sent: 8, ended: 5}, 10 * time.Second},
		"[##......................] 1234/9876  1198/s  7s left":     {jobFigures{total: 9876, sent: 5000, ended: 1234}, 1030 * time.Millisecond},
		"[##......................] 12345/98765  412/s  3m30s left": {jobFigures{total: 98765, sent: 50000, ended: 12345}, 30 * time.Second},
		"0 ended, 0 not yet":                                        {jobFigures{}, time.Hour},
	} {
		got := c.figures.bar(c.took)
		if got != want {
			t.Errorf("%q, not %q", got, want)
		}
		if len(got) > 79 {
			t.Errorf("%d columns: %s", len(got), got)
		}
	}
}

func TestProgressLine(t *testing.T) {
	for want, c := range map[string]jobFigures{
		"5 of 10 jobs have ended":                         {total: 10, sent: 7, ended: 5},
		"5 of 7 jobs so far have ended, 2 of them failed": {sent: 7, ended: 5, failed: 2},
	} {
		if got := c.line(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

// Text that is written while a bar is shown starts on a clean line. At the end the bar
// is removed.
func TestBarMakesRoomForOutput(t *testing.T) {
	var out safeBuffer
	p := &progress{out: &out, style: progressBar, now: time.Now, began: time.Now(), quit: make(chan struct{})}
	p.update(func(t *jobFigures) { t.total = 2 })
	p.show()
	if err := p.around(func() error { return write(&out, "result\n") }); err != nil {
		t.Fatal(err)
	}
	p.update(func(t *jobFigures) { t.ended++ })
	p.show()
	p.close()
	p.close()
	want := barStart + "[........................] 0/2" + barEnd + barClear + "result\n" +
		barStart + "[############............] 1/2" + barEnd + barClear
	if got := out.String(); got != want {
		t.Errorf("%q", got)
	}
	if err := p.around(func() error { return errors.New("broken") }); err == nil || out.String() != want {
		t.Errorf("%v, %q", err, out.String())
	}
}

func TestProgressLinesOnlyOnChange(t *testing.T) {
	var out safeBuffer
	p := &progress{out: &out, style: progressLines, now: time.Now, quit: make(chan struct{})}
	p.every(time.Millisecond)
	p.update(func(t *jobFigures) { t.sent = 3 })
	for !strings.Contains(out.String(), "0 of 3") && t.Context().Err() == nil {
		<-time.After(time.Millisecond)
	}
	p.show()
	p.close()
	if got := out.String(); got != "0 of 3 jobs so far have ended\n" {
		t.Errorf("%q", got)
	}
}

func TestCountLines(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for text, want := range map[string]int{"": 0, "a": 1, "a\n": 1, "a\n\n \nb": 2, "\n": 0, long + "\n" + long: 2, long + "\n\n": 1} {
		file := filepath.Join(t.TempDir(), "lines")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := countLines(file); got != want {
			t.Errorf("%.20q: %d lines, not %d", text, got, want)
		}
	}
	if countLines("-") != 0 || countLines(os.DevNull) != 0 {
		t.Error("what cannot be read twice was counted")
	}
}
