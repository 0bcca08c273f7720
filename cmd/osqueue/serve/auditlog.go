package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"osqueue/api/core"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/sleep"
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
//
// The file is never renamed or cut here: logrotate does that, and sends SIGHUP, at which the log
// opens its file again.

const (
	// auditQueueMax is the number of entries in the queue. An entry takes some 500 bytes, at most
	// about 2 KiB. Changes that were admitted at the same moment may exceed it.
	auditQueueMax = 8192
	// auditPatience is how long a change waits for room in the queue.
	auditPatience = time.Second
	// auditLook is the interval at which it looks for room.
	auditLook = auditPatience / 50
	// auditAgain is the pause after a failed write.
	auditAgain = time.Second
	// auditStop bounds the end of the audit log when the node stops.
	auditStop = 2 * time.Second
)

// The values of --audit-full.
const (
	auditRefuse = "refuse"
	auditDrop   = "drop"
)

// auditLog is the queue of an audit log and its writer. It is safe for concurrent use.
type auditLog struct {
	log    hclog.Logger
	full   string // auditRefuse or auditDrop
	file   *auditFile
	lines  slog.Handler   // writes to file
	hangup chan os.Signal // has an item when file must be opened again
	wake   chan struct{}  // has an item when the writer has something to do
	stop   chan struct{}  // closed by close
	done   chan struct{}  // closed when the writer has ended

	mu      sync.Mutex
	queue   []core.AuditEntry // the writer removes entries from its front
	missing int               // dropped entries that no line of the log counts yet
	last    core.AuditEntry   // the last one of these

	dropped, refused, failed prometheus.Counter
}

func newAuditLog(log hclog.Logger, file *auditFile, full string) *auditLog {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	a := &auditLog{
		log: log, full: full, file: file, hangup: make(chan os.Signal, 1),
		lines: slog.NewJSONHandler(file, &slog.HandlerOptions{ReplaceAttr: onlyAudited}),
		wake:  make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
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
	file := &auditFile{path: o.auditLog}
	if err := file.open(); err != nil {
		return nil, fmt.Errorf("--audit-log: %w", err)
	}
	a := newAuditLog(log, file, o.auditFull)
	signal.Notify(a.hangup, syscall.SIGHUP)
	return a, nil
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
	for late := time.Now().Add(auditPatience); a.full == auditRefuse && a.queued() >= auditQueueMax; {
		if !time.Now().Before(late) || !sleep.For(ctx, auditLook) {
			a.refused.Inc()
			return fmt.Errorf("this node cannot write its audit log, and %d entries wait for it: it makes no change that it cannot record; see its log, or start it with --audit-full drop", auditQueueMax)
		}
	}
	return nil
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
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// lostEntries is the entry in place of n entries that were dropped, of which one is the last.
func lostEntries(n int, last core.AuditEntry) core.AuditEntry {
	return core.AuditEntry{Time: last.Time, Node: last.Node, Action: "drop entries", Object: strconv.Itoa(n), Outcome: "audit_full"}
}

// run writes the queue until close, and then what is left.
func (a *auditLog) run() {
	defer close(a.done)
	bad := false // an error was logged
	for {
		select {
		case <-a.hangup:
			a.reopen()
		default:
		}
		if a.queued() == 0 {
			select {
			case <-a.wake:
				continue
			case <-a.hangup:
				a.reopen()
				continue
			case <-a.stop:
				if a.queued() > 0 {
					continue
				}
				return
			}
		}
		err := a.writeFirst()
		if err == nil {
			bad = false
			continue
		}
		a.failed.Inc()
		if !bad {
			a.log.Error("the audit log cannot be written; its entries wait", "error", err)
			bad = true
		}
		select {
		case <-a.stop:
			return
		case <-time.After(auditAgain):
		}
	}
}

// reopen opens the file of the audit log again, or keeps the one that it has.
func (a *auditLog) reopen() {
	if err := a.file.open(); err != nil {
		a.log.Error("SIGHUP: the audit log cannot be opened again; it continues in the file that was open", "error", err)
		return
	}
	a.log.Info("SIGHUP: the audit log is opened again", "file", a.file.path)
}

// writeFirst writes the first entry of the queue, and removes it.
func (a *auditLog) writeFirst() error {
	a.mu.Lock()
	e := a.queue[0]
	a.mu.Unlock()
	line := slog.NewRecord(time.Time{}, slog.LevelInfo, "", 0)
	line.AddAttrs(slog.String("time", e.Time), slog.String("node", e.Node), slog.String("principal", e.Principal),
		slog.String("address", e.Address), slog.String("action", e.Action), slog.String("object", e.Object),
		slog.String("lsn", e.LSN), slog.Int("status", e.Status), slog.String("outcome", e.Outcome))
	if err := a.lines.Handle(context.Background(), line); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue[0] = core.AuditEntry{}
	a.queue = a.queue[1:]
	if a.missing > 0 && len(a.queue) < auditQueueMax/2 {
		a.queue = append(a.queue, lostEntries(a.missing, a.last))
		a.missing = 0
	}
	return nil
}

// onlyAudited leaves out of a line of slog what is no part of an entry, or empty.
func onlyAudited(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.LevelKey || a.Value.Equal(slog.StringValue("")) {
		return slog.Attr{}
	}
	return a
}

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
	signal.Stop(a.hangup)
	close(a.stop)
	select {
	case <-a.done:
	case <-ctx.Done():
		return fmt.Errorf("the last %d entries were not written to the audit log: a write did not end in time", a.queued())
	}
	if n := a.queued(); n > 0 {
		return fmt.Errorf("the last %d entries were not written to the audit log: each write failed", n)
	}
	if a.file.path == "" {
		return nil
	}
	return a.file.out.Close()
}

// auditFile is the file of an audit log. One goroutine uses it.
type auditFile struct {
	path string // "": out is stdout
	out  io.WriteCloser
	torn bool // the last line has no end
}

// open opens the file for appending, in place of the one that is open. A named pipe without a reader
// is an error: it would block the node.
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
	before := f.out
	f.out, f.torn = out, info.Mode().IsRegular() && !endsLine(f.path, info.Size())
	if before != nil {
		_ = before.Close() // each of its writes was answered
	}
	return nil
}

// endsLine reports whether a file of a size ends with a whole line. A process that dies may leave a
// part of one. A file that is empty or cannot be read counts as whole.
func endsLine(path string, size int64) bool {
	f, err := os.Open(path)
	if err != nil {
		return true
	}
	defer f.Close()
	last := make([]byte, 1)
	_, err = f.ReadAt(last, size-1)
	return err != nil || last[0] == '\n'
}

// Write implements io.Writer, for slog. It ends a line before this one that was not written whole.
func (f *auditFile) Write(line []byte) (int, error) {
	text := view.Escaped(string(line))
	if f.torn {
		text = "\n" + text
	}
	n, err := io.WriteString(f.out, text)
	if n > 0 {
		f.torn = text[n-1] != '\n'
	}
	return n, err
}
