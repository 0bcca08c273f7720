package view

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/hashicorp/go-hclog"
)

func TestBar(t *testing.T) {
	for want, c := range map[string]struct {
		figures Figures
		took    time.Duration
	}{
		"░░░░░░░░░░░░░░░░░░░░░░░░ 0/10":                           {Figures{total: 10, Sent: 4}, time.Minute},
		"▌▌▌▌▌▌▌▌▌▌▌▌░░░░░░░░░░░░ 5/10  1 failed  2.5/s  2s left": {Figures{total: 10, Sent: 10, Ended: 5, Failed: 1}, 2 * time.Second},
		"▌▌▌▌▌▌▌▌▌▌▌▌▌▌▌▌▌▌▌▌▌▌▌▌ 10/10  10/s":                    {Figures{total: 10, Sent: 10, Ended: 10}, time.Second},
		"▌▌▌▌▌▌▌▌▌▌▌▌▌▌▌▌▌▌▌▌▌▌▌▌ 12/10  12/s":                    {Figures{total: 10, Sent: 12, Ended: 12}, time.Second}, // the file has grown
		"5 ended, 3 not yet  0.5/s": {Figures{Sent: 8, Ended: 5}, 10 * time.Second},
		"▌▌▌░░░░░░░░░░░░░░░░░░░░░ 1234/9876  1198/s  7s left":     {Figures{total: 9876, Sent: 5000, Ended: 1234}, 1030 * time.Millisecond},
		"▌▌▌░░░░░░░░░░░░░░░░░░░░░ 12345/98765  412/s  3m30s left": {Figures{total: 98765, Sent: 50000, Ended: 12345}, 30 * time.Second},
		"0 ended, 0 not yet": {Figures{}, time.Hour},
	} {
		got := c.figures.bar(c.took, newBar(false))
		if got != want {
			t.Errorf("%q, not %q", got, want)
		}
		if ansi.StringWidth(got) > 79 {
			t.Errorf("%d columns: %s", ansi.StringWidth(got), got)
		}
	}
}

func TestProgressLine(t *testing.T) {
	for want, c := range map[string]Figures{
		"5 of 10 jobs have ended":                         {total: 10, Sent: 7, Ended: 5},
		"5 of 7 jobs have ended so far, 2 of them failed": {Sent: 7, Ended: 5, Failed: 2},
	} {
		if got := c.line(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

// Text that is written while a bar is shown starts on a clean line. At the end the bar
// is removed.
func TestBarMakesRoomForOutput(t *testing.T) {
	var out lockedBuffer
	p := &Progress{out: &out, style: progressBar, draw: newBar(false), began: time.Now()}
	p.Update(func(t *Figures) { t.total = 2 })
	p.show()
	check(t, p.Around(func() error { return Write(&out, "result\n") }))
	p.Update(func(t *Figures) { t.Ended++ })
	p.show()
	p.Close()
	p.Close()
	want := barStart + "░░░░░░░░░░░░░░░░░░░░░░░░ 0/2" + barEnd + BarClear + "result\n" +
		barStart + "▌▌▌▌▌▌▌▌▌▌▌▌░░░░░░░░░░░░ 1/2" + barEnd + BarClear
	if got := out.String(); got != want {
		t.Errorf("%q", got)
	}
	if err := p.Around(func() error { return errors.New("broken") }); err == nil || out.String() != want {
		t.Errorf("%v, %q", err, out.String())
	}
}

func TestProgressLinesOnlyOnChange(t *testing.T) {
	var out lockedBuffer
	p := &Progress{out: &out, style: progressLines}
	p.every(time.Millisecond)
	p.Update(func(t *Figures) { t.Sent = 3 })
	for !strings.Contains(out.String(), "0 of 3") && t.Context().Err() == nil {
		<-time.After(time.Millisecond)
	}
	p.show()
	p.Close()
	if got := out.String(); got != "0 of 3 jobs have ended so far\n" {
		t.Errorf("%q", got)
	}
}

func TestCountLines(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	for text, want := range map[string]int{"": 0, "a": 1, "a\n": 1, "a\n\n \nb": 2, "\n": 0, long + "\n" + long: 2, long + "\n\n": 1} {
		file := filepath.Join(t.TempDir(), "lines")
		check(t, os.WriteFile(file, []byte(text), 0o600))
		if got := countLines(file); got != want {
			t.Errorf("%.20q: %d lines, not %d", text, got, want)
		}
	}
	if countLines("-") != 0 || countLines(os.DevNull) != 0 {
		t.Error("what cannot be read twice was counted")
	}
}

// lockedBuffer is a buffer that a progress writes while its test reads.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

type lineWriter chan string

func (w lineWriter) Write(b []byte) (int, error) {
	w <- string(b)
	return len(b), nil
}

// SIGHUP ends no process, and leaves a line in its log.
func TestIgnoreHangup(t *testing.T) {
	lines := make(lineWriter, 1)
	stop := IgnoreHangup(hclog.New(&hclog.LoggerOptions{Output: lines}).Info)
	defer stop()
	check(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	select {
	case line := <-lines:
		if !strings.Contains(line, "SIGHUP: no setting is read again") {
			t.Errorf("the log has %q", line)
		}
	case <-time.After(10 * time.Second):
		t.Error("no line in the log")
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
