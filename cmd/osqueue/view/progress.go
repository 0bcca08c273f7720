package view

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"charm.land/bubbles/v2/progress"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"osqueue/internal/sleep"
)

// progressStyle is the way in which a progress is shown.
type progressStyle int

const (
	progressSilent progressStyle = iota
	progressLines                // a line of figures at intervals
	progressBar                  // a line of a terminal that is redrawn
)

const (
	barPause   = 200 * time.Millisecond
	linesPause = 10 * time.Second
	barCells   = 24
)

// Figures counts the jobs of a command.
type Figures struct {
	total  int // 0: not known yet
	Sent   int
	Ended  int
	Failed int // of the ended jobs
}

// Progress prints figures about jobs on stderr. It is safe for concurrent use.
type Progress struct {
	out   io.Writer
	style progressStyle
	draw  func(part float64) string
	began time.Time

	stop func() // ends the display; nil: there is none

	mu    sync.Mutex
	jobs  Figures
	shown Figures // the figures of the last line
	drawn bool    // whether the terminal shows a bar
}

// NewProgress starts to show progress, in the style that suits stderr.
func (g *Globals) NewProgress(quiet bool) *Progress {
	style := progressLines
	switch file, ok := g.Err.(*os.File); {
	case quiet:
		style = progressSilent
	case ok && IsTerminal(file) && g.Getenv("TERM") != "dumb":
		style = progressBar
	}
	p := &Progress{out: g.Err, style: style, draw: newBar(g.Getenv("NO_COLOR") == ""), began: time.Now()}
	switch style {
	case progressBar:
		p.every(barPause)
	case progressLines:
		p.every(linesPause)
	case progressSilent:
	}
	return p
}

// every shows the figures at an interval, until close.
func (p *Progress) every(pause time.Duration) {
	p.stop = Background(context.Background(), func(ctx context.Context) {
		for sleep.For(ctx, pause) {
			p.show()
		}
	})
}

// Count counts the lines of the file for the bar. It does nothing without a bar, or if
// the file cannot be read twice.
func (p *Progress) Count(file string) {
	if p.style != progressBar {
		return
	}
	if n := countLines(file); n > 0 {
		p.Update(func(t *Figures) { t.total = n })
	}
}

// countLines returns the number of lines of a file that are not blank. It returns 0 if
// the file cannot be read.
func countLines(name string) (n int) {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	file, err := os.Open(name)
	if err != nil {
		return 0
	}
	defer file.Close()
	in, blank := bufio.NewReaderSize(file, 64<<10), true
	for {
		part, err := in.ReadSlice('\n')
		blank = blank && len(bytes.TrimSpace(part)) == 0
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if !blank {
			n++
		}
		if err != nil {
			return n
		}
		blank = true
	}
}

// Update changes the figures.
func (p *Progress) Update(change func(*Figures)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.jobs)
}

// Figures returns the present figures.
func (p *Progress) Figures() Figures {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.jobs
}

// Around runs a function that writes to the terminal, and removes the bar meanwhile.
func (p *Progress) Around(fn func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
	return fn()
}

// Close ends the display and removes the bar. It may be called again.
func (p *Progress) Close() {
	if p.stop != nil {
		p.stop()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
}

// show prints the figures. It ignores errors of stderr.
func (p *Progress) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.style == progressBar:
		p.drawn = true
		_, _ = io.WriteString(p.out, barStart+p.jobs.bar(time.Since(p.began), p.draw)+barEnd)
	case p.style == progressLines && p.jobs != p.shown:
		p.shown = p.jobs
		_, _ = io.WriteString(p.out, p.jobs.line()+"\n")
	}
}

// Control sequences around a bar: they return to the first column, erase the line, and
// clip the bar at the edge of the terminal instead of wrapping it.
const (
	BarClear = "\r\x1b[K"
	barStart = BarClear + "\x1b[?7l"
	barEnd   = "\x1b[?7h"
)

// wipe removes the bar from the terminal. The caller holds the lock.
func (p *Progress) wipe() {
	if p.drawn {
		_, _ = io.WriteString(p.out, BarClear)
		p.drawn = false
	}
}

// line formats the figures for a log.
func (t Figures) line() string {
	text := fmt.Sprintf("%d of %d jobs have ended", t.Ended, max(t.total, t.Sent))
	if t.total == 0 {
		text = fmt.Sprintf("%d of %d jobs have ended so far", t.Ended, t.Sent)
	}
	if t.Failed > 0 {
		text += fmt.Sprintf(", %d of them failed", t.Failed)
	}
	return text
}

// newBar returns the function that draws a bar for a part of 1.
func newBar(colour bool) (draw func(part float64) string) {
	bar := progress.New(progress.WithWidth(barCells), progress.WithoutPercentage(), progress.WithColors(lipgloss.Green))
	bar.EmptyColor = lipgloss.BrightBlack
	if !colour {
		return func(part float64) string { return ansi.Strip(bar.ViewAs(part)) }
	}
	return bar.ViewAs
}

// bar formats the figures for a terminal, after the time took.
func (t Figures) bar(took time.Duration, draw func(float64) string) string {
	var parts []string
	if t.total > 0 {
		parts = append(parts, fmt.Sprintf("%s %d/%d", draw(float64(t.Ended)/float64(t.total)), t.Ended, t.total))
	} else {
		parts = append(parts, fmt.Sprintf("%d ended, %d not yet", t.Ended, t.Sent-t.Ended))
	}
	if t.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", t.Failed))
	}
	if t.Ended > 0 && took >= time.Second {
		rate := float64(t.Ended) / took.Seconds()
		if rate < 10 {
			parts = append(parts, fmt.Sprintf("%.1f/s", rate))
		} else {
			parts = append(parts, fmt.Sprintf("%.0f/s", rate))
		}
		if left := t.total - t.Ended; left > 0 {
			parts = append(parts, Short(time.Duration(float64(left)/rate*float64(time.Second)).Round(time.Second))+" left")
		}
	}
	return strings.Join(parts, "  ")
}
