package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// How a progress shows itself.
type progressStyle int

const (
	progressSilent progressStyle = iota
	progressLines                // a line of figures now and then
	progressBar                  // a line of a terminal that is drawn again and again
)

const (
	barPause   = 200 * time.Millisecond
	linesPause = 10 * time.Second
	barCells   = 24
)

// tally is how far many jobs are.
type tally struct {
	total  int // 0: not known yet
	sent   int
	ended  int
	failed int // of those that ended
}

// progress tells on stderr how far many jobs are. It is no own library's bar:
// those are larger than what is wanted here. It is safe for concurrent use.
type progress struct {
	out   io.Writer
	style progressStyle
	now   func() time.Time
	began time.Time

	quit chan struct{}
	idle sync.WaitGroup

	mu     sync.Mutex
	tally  tally
	told   tally // what the last line of figures said
	drawn  bool  // there is a bar on the terminal
	closed bool
}

// newProgress begins to show progress, as fits stderr.
func (g *globals) newProgress(quiet bool) *progress {
	style := progressLines
	switch file, ok := g.stderr.(*os.File); {
	case quiet:
		style = progressSilent
	case ok && isTerminal(file) && g.getenv("TERM") != "dumb":
		style = progressBar
	}
	p := &progress{out: g.stderr, style: style, now: time.Now, quit: make(chan struct{})}
	p.began = p.now()
	switch style {
	case progressBar:
		p.every(barPause)
	case progressLines:
		p.every(linesPause)
	case progressSilent:
	}
	return p
}

// every shows the figures again and again, until close.
func (p *progress) every(pause time.Duration) {
	p.idle.Go(func() {
		ticks := time.NewTicker(pause)
		defer ticks.Stop()
		for {
			select {
			case <-ticks.C:
				p.show()
			case <-p.quit:
				return
			}
		}
	})
}

// count finds out how many lines there are to come, if somebody looks at a bar
// and the file can be read twice.
func (p *progress) count(file string) {
	if p.style != progressBar {
		return
	}
	if n := countLines(file); n > 0 {
		p.update(func(t *tally) { t.total = n })
	}
}

// countLines counts the lines of a file that are not blank; 0: it cannot be told.
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

// update changes the figures.
func (p *progress) update(change func(*tally)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.tally)
}

// figures are those of now.
func (p *progress) figures() tally {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tally
}

// around runs what writes to the terminal, without the bar in its way.
func (p *progress) around(fn func() error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
	return fn()
}

// close ends the display; the bar is gone then. It may be called again.
func (p *progress) close() {
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	p.mu.Unlock()
	if closed {
		return
	}
	close(p.quit)
	p.idle.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
}

// show shows the figures. That stderr cannot be written to is no reason to stop.
func (p *progress) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.style == progressBar:
		p.drawn = true
		_, _ = io.WriteString(p.out, barStart+p.tally.bar(p.now().Sub(p.began))+barEnd)
	case p.style == progressLines && p.tally != p.told:
		p.told = p.tally
		_, _ = io.WriteString(p.out, p.tally.line()+"\n")
	}
}

// The control sequences around a bar: from the first column on, nothing left of
// what was there, and cut at the edge of the terminal instead of wrapped.
const (
	barClear = "\r\x1b[K"
	barStart = barClear + "\x1b[?7l"
	barEnd   = "\x1b[?7h"
)

// wipe takes the bar off the terminal. The caller holds the lock.
func (p *progress) wipe() {
	if p.drawn {
		_, _ = io.WriteString(p.out, barClear)
		p.drawn = false
	}
}

// line is the figures for a log.
func (t tally) line() string {
	text := fmt.Sprintf("%d of %d jobs have ended", t.ended, max(t.total, t.sent))
	if t.total == 0 {
		text = fmt.Sprintf("%d of %d jobs so far have ended", t.ended, t.sent)
	}
	if t.failed > 0 {
		text += fmt.Sprintf(", %d of them failed", t.failed)
	}
	return text
}

// bar is the figures for a terminal, after so much time.
func (t tally) bar(took time.Duration) string {
	var parts []string
	if t.total > 0 {
		cells := min(t.ended*barCells/t.total, barCells)
		parts = append(parts, fmt.Sprintf("[%s%s] %d/%d", strings.Repeat("#", cells), strings.Repeat(".", barCells-cells), t.ended, t.total))
	} else {
		parts = append(parts, fmt.Sprintf("%d ended, %d not yet", t.ended, t.sent-t.ended))
	}
	if t.failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", t.failed))
	}
	if t.ended > 0 && took >= time.Second {
		rate := float64(t.ended) / took.Seconds()
		if rate < 10 {
			parts = append(parts, fmt.Sprintf("%.1f/s", rate))
		} else {
			parts = append(parts, fmt.Sprintf("%.0f/s", rate))
		}
		if left := t.total - t.ended; left > 0 {
			parts = append(parts, short(time.Duration(float64(left)/rate*float64(time.Second)).Round(time.Second))+" left")
		}
	}
	return strings.Join(parts, "  ")
}
