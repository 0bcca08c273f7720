package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"osqueue/api/core"
	"osqueue/cmd/osqueue/view"
)

// The audit log takes entries into a bounded queue, which one goroutine writes to the file. So a
// disk that is slow, full or hung does not hold up requests while the queue has room. What is in
// the queue is written as soon as the disk takes it, and before an orderly stop ends; a crash
// loses it.
//
// When the queue is full, --audit-full decides about changes. With refuse, no change is made that
// the log could not have: each waits for room for auditPatience, and is then refused. With drop,
// changes go on, and the log gets a line with the number of the entries that it lacks. Entries of
// requests that changed nothing are dropped in both cases, and refusals, which strangers can cause,
// already when the queue is half full.

const (
	// auditQueueMax is the number of entries in the queue. An entry takes some 500 bytes, at most
	// about 2 KiB. Changes that were admitted at the same moment may exceed it.
	auditQueueMax = 8192
	// auditPatience is how long a change waits for room in the queue.
	auditPatience = time.Second
	// auditAgain is the pause after a failed write.
	auditAgain = time.Second
	// auditBatch is the number of entries in one write.
	auditBatch = 256
)

// The values of --audit-full.
const (
	auditRefuse = "refuse"
	auditDrop   = "drop"
)

// auditLog is the queue of an audit log and its writer. It is safe for concurrent use.
type auditLog struct {
	log  hclog.Logger
	full string // auditRefuse or auditDrop
	file *auditFile
	wake chan struct{} // has an item when the writer has something to do
	stop chan struct{} // closed by close
	done chan struct{} // closed when the writer has ended

	mu      sync.Mutex
	queue   []core.AuditEntry // the writer removes entries from its front
	room    chan struct{}     // closed when the queue has room again; nil: no change waits
	missing int               // dropped entries that no line of the log counts yet
	last    core.AuditEntry   // the last one of these

	dropped, refused, failed prometheus.Counter
}

func newAuditLog(log hclog.Logger, file *auditFile, full string) *auditLog {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	a := &auditLog{
		log: log, full: full, file: file,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		dropped: counter("osqueue_audit_dropped_total", "Entries that the audit log lacks, because its queue was full."),
		refused: counter("osqueue_audit_refused_total", "Changes that were refused because the queue of the audit log was full."),
		failed:  counter("osqueue_audit_write_errors_total", "Failed writes to the audit log; they are repeated."),
	}
	go a.run()
	return a
}

// openAudit opens the audit log, or returns nil if there is none.
func (o *securityOptions) openAudit(log hclog.Logger) (*auditLog, error) {
	switch o.auditLog {
	case "":
		return nil, nil
	case "-":
		return newAuditLog(log, &auditFile{out: os.Stdout}, o.auditFull), nil
	}
	file, err := openAuditFile(o.auditLog)
	if err != nil {
		return nil, fmt.Errorf("--audit-log: %w", err)
	}
	return newAuditLog(log, file, o.auditFull), nil
}

// register adds the metrics.
func (a *auditLog) register(r prometheus.Registerer) {
	r.MustRegister(a.dropped, a.refused, a.failed, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "osqueue_audit_queue_entries", Help: "Entries that wait to be written to the audit log.",
	}, func() float64 { return float64(a.queued()) }))
}

func (a *auditLog) queued() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.queue)
}

// admit returns nil if a change may be made, as far as the audit log is concerned. It waits for
// room in the queue for auditPatience at most.
func (a *auditLog) admit(ctx context.Context) error {
	if a.full == auditDrop {
		return nil
	}
	room := a.awaitRoom()
	if room == nil {
		return nil
	}
	late := time.NewTimer(auditPatience)
	defer late.Stop()
	select {
	case <-room:
		return nil
	case <-late.C:
	case <-ctx.Done():
	}
	a.refused.Inc()
	return fmt.Errorf("this node cannot write its audit log, and %d entries wait for it: it makes no change that it cannot record; see its log, or start it with --audit-full drop", auditQueueMax)
}

// awaitRoom returns a channel that is closed when the queue has room, or nil if it has.
func (a *auditLog) awaitRoom() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) < auditQueueMax {
		return nil
	}
	if a.room == nil {
		a.room = make(chan struct{})
	}
	return a.room
}

// add puts an entry into the queue. admitted says that admit let the change happen: its entry is
// never dropped, unless --audit-full=drop.
func (a *auditLog) add(e core.AuditEntry, admitted bool) {
	most := auditQueueMax
	if e.Status == 401 || e.Status == 403 {
		most /= 2
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) >= most && (!admitted || a.full == auditDrop) {
		a.missing++
		a.last = e
		a.dropped.Inc()
		return
	}
	a.queue = append(a.queue, e)
	a.signal()
}

// lostEntries is the entry in place of n entries that were dropped, of which one is the last.
func lostEntries(n int, last core.AuditEntry) core.AuditEntry {
	return core.AuditEntry{Time: last.Time, Node: last.Node, Action: "drop entries", Object: strconv.Itoa(n), Outcome: "audit_full"}
}

func (a *auditLog) signal() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run writes the queue until close, and then what is left.
func (a *auditLog) run() {
	defer close(a.done)
	bad := false // an error was logged
	for {
		batch := a.next()
		if batch == nil {
			select {
			case <-a.wake:
				continue
			case <-a.stop:
				if a.queued() > 0 {
					continue
				}
				return
			}
		}
		n, err := a.file.append(batch)
		a.written(n)
		if err == nil {
			bad = false
			continue
		}
		a.failed.Inc()
		if !bad {
			a.log.Error("the audit log cannot be written; its entries wait", "error", err)
			bad = true
		}
		if n == len(batch) {
			continue // it was written, although the file could not be replaced
		}
		select {
		case <-a.stop:
			return
		case <-time.After(auditAgain):
		}
	}
}

// next returns the lines of the next write, or nil.
func (a *auditLog) next() (lines [][]byte) {
	a.mu.Lock()
	entries := a.queue[:min(len(a.queue), auditBatch)]
	a.mu.Unlock()
	for i := range entries {
		line, err := json.Marshal(&entries[i])
		if err != nil {
			line = nil // an entry has texts and numbers only
		}
		lines = append(lines, []byte(view.Escaped(string(line))+"\n"))
	}
	return lines
}

// written removes the first n entries from the queue.
func (a *auditLog) written(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.queue[:n])
	if a.queue = a.queue[n:]; len(a.queue) == 0 {
		a.queue = nil
	}
	if a.missing > 0 && len(a.queue) < auditQueueMax/2 {
		a.queue = append(a.queue, lostEntries(a.missing, a.last))
		a.missing = 0
	}
	if a.room != nil && len(a.queue) < auditQueueMax {
		close(a.room)
		a.room = nil
	}
}

// auditStop bounds the end of the audit log when the node stops.
const auditStop = 2 * time.Second

// closeAudit ends the audit log, also if the time for the requests is over.
func (s *server) closeAudit() error {
	ctx, cancel := context.WithTimeout(context.Background(), auditStop)
	defer cancel()
	return s.audit.close(ctx)
}

// close writes what is in the queue, until ctx ends, and closes the file. It returns an error if
// entries are lost. Nothing may call add any more.
func (a *auditLog) close(ctx context.Context) error {
	if a == nil {
		return nil
	}
	close(a.stop)
	select {
	case <-a.done:
	case <-ctx.Done():
		return fmt.Errorf("the last %d entries were not written to the audit log: a write did not end in time", a.queued())
	}
	if n := a.queued(); n > 0 {
		return fmt.Errorf("the last %d entries were not written to the audit log: each write failed", n)
	}
	if a.file.out == os.Stdout {
		return nil
	}
	return a.file.out.Close()
}

// auditMax is the size at which the audit log moves to FILE.1, which it replaces. If it cannot, it is
// tried again when the file has grown by auditRetry.
const (
	auditMax   = 64 << 20
	auditRetry = 1 << 20
)

// auditFile is the file of an audit log. One goroutine uses it.
type auditFile struct {
	path string // "": out is no regular file, or stdout, and never moves
	out  io.WriteCloser
	size int64
	move int64 // the size at which the file moves
	torn bool  // the last line has no end
}

// openAuditFile opens a file for appending. A named pipe without a reader is an error: it would
// block the node.
func openAuditFile(path string) (*auditFile, error) {
	f := &auditFile{path: path}
	if err := f.open(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *auditFile) open() error {
	out, err := os.OpenFile(f.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND|syscall.O_NONBLOCK, 0o600)
	if errors.Is(err, syscall.ENXIO) {
		return fmt.Errorf("%s is a pipe that no program reads: start the reader first", f.path)
	}
	if err != nil {
		return err
	}
	info, err := out.Stat()
	if err != nil {
		return errors.Join(err, out.Close())
	}
	f.out, f.size, f.move, f.torn = out, 0, auditMax, false
	if !info.Mode().IsRegular() {
		f.path = ""
		return nil
	}
	f.size, f.torn = info.Size(), !endsLine(f.path, info.Size())
	return nil
}

// endsLine reports whether a file of a size is empty or ends with a whole line. A process that dies
// may leave a part of one. A file that cannot be read counts as whole.
func endsLine(path string, size int64) bool {
	if size == 0 {
		return true
	}
	f, err := os.Open(path)
	if err != nil {
		return true
	}
	defer f.Close()
	last := make([]byte, 1)
	_, err = f.ReadAt(last, size-1)
	return err != nil || last[0] == '\n'
}

// append writes lines, and ends a line before them that was not written whole. It returns the
// number of lines that were written whole.
func (f *auditFile) append(lines [][]byte) (whole int, err error) {
	buf := make([]byte, 0, 4<<10)
	if f.torn {
		buf = append(buf, '\n')
	}
	var ends []int
	for _, line := range lines {
		buf = append(buf, line...)
		ends = append(ends, len(buf))
	}
	if f.path != "" && f.size > 0 && f.size+int64(len(buf)) > f.move {
		err = f.rotate()
	}
	n, writeErr := f.out.Write(buf)
	f.size += int64(n)
	for whole < len(ends) && ends[whole] <= n {
		whole++
	}
	if n > 0 {
		f.torn = buf[n-1] != '\n'
	}
	return whole, errors.Join(err, writeErr)
}

// rotate begins a new file. After an error the old one grows.
func (f *auditFile) rotate() error {
	old := f.out
	err := os.Rename(f.path, f.path+".1")
	if err == nil {
		err = f.open()
	}
	if err != nil {
		f.move = f.size + auditRetry
		return fmt.Errorf("start a new file (the old one becomes %s.1): %w; until then the file grows", f.path, err)
	}
	return old.Close()
}
