package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/hashicorp/go-hclog"

	"osqueue/api/core"
)

// openedAudit opens an audit log in a file, which the test closes.
func openedAudit(t *testing.T, path string) *auditLog {
	t.Helper()
	o := securityOptions{auditLog: path, auditFull: auditRefuse}
	a, err := o.openAudit(hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// closed closes an audit log, which must have written all of its entries.
func closed(t *testing.T, a *auditLog) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := a.close(ctx); err != nil {
		t.Fatal(err)
	}
}

// objects adds entries about objects.
func (a *auditLog) objects(names ...string) {
	for _, name := range names {
		a.add(core.AuditEntry{Object: name}, true)
	}
}

// objects returns the objects of the entries in a file, "?" for a line that is none.
func objects(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return objectsOf(string(data))
}

func objectsOf(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		var e core.AuditEntry
		if json.Unmarshal([]byte(line), &e) != nil {
			e.Object = "?"
		}
		out = append(out, e.Object)
	}
	return strings.Join(out, " ")
}

// disk is a file of a disk that can become full within an entry, or hang.
type disk struct {
	mu    sync.Mutex
	text  strings.Builder
	full  bool
	hangs chan struct{} // nil: it does not
	tried int           // writes that began
}

var errFull = errors.New("no space left on device")

func (d *disk) Write(b []byte) (int, error) {
	d.mu.Lock()
	hangs := d.hangs
	d.tried++
	d.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.full {
		return d.text.Write(b)
	}
	n, _ := d.text.Write(b[:len(b)/2])
	return n, errFull
}

func (d *disk) Close() error { return nil }

func (d *disk) set(change func(*disk)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

func (d *disk) written() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return objectsOf(d.text.String())
}

var _ io.WriteCloser = (*disk)(nil)

// On a full disk entries wait, and are written whole when it has room again.
func TestAuditOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := new(disk)
		a := newAuditLog(hclog.NewNullLogger(), &auditFile{out: d}, auditRefuse)
		a.objects("before")
		synctest.Wait()
		d.set(func(d *disk) { d.full = true })
		a.objects("torn")
		time.Sleep(3 * auditAgain)
		a.objects("waits", "too")
		d.set(func(d *disk) { d.full = false })
		time.Sleep(2 * auditAgain)
		a.objects("after")
		closed(t, a)
		if got := d.written(); !strings.HasPrefix(got, "before ?") || !strings.HasSuffix(got, "? torn waits too after") {
			t.Errorf("the log has %s", got)
		}
	})
}

// While the disk hangs, entries wait up to a bound. Then no change is admitted, and what changed
// nothing is dropped and counted. When the disk works again, all entries of changes are written.
func TestAuditOnAHungDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		d := &disk{hangs: hangs}
		a := newAuditLog(hclog.NewNullLogger(), &auditFile{out: d}, auditRefuse)
		const refusals = auditQueueMax
		for range refusals {
			a.add(core.AuditEntry{Object: "stranger", Status: 401}, false)
		}
		changes := 0
		for a.queued() < auditQueueMax {
			if err := a.admit(t.Context()); err != nil {
				t.Fatalf("change %d: %v", changes, err)
			}
			a.objects("change")
			changes++
		}
		began := time.Now()
		if err := a.admit(t.Context()); err == nil || time.Since(began) != auditPatience {
			t.Errorf("admitted with %v after %v", err, time.Since(began))
		}
		a.objects("under-way") // it was admitted before
		if n := a.queued(); n != auditQueueMax+1 {
			t.Errorf("%d entries wait", n)
		}
		admitted := make(chan error)
		go func() { admitted <- a.admit(t.Context()) }()
		synctest.Wait()
		d.set(func(d *disk) { d.hangs = nil })
		close(hangs)
		if err := <-admitted; err != nil {
			t.Error(err)
		}
		closed(t, a)
		got := d.written()
		if n := strings.Count(got, "change"); changes == 0 || n != changes || !strings.Contains(got, "under-way") {
			t.Errorf("the log has %d of %d changes", n, changes)
		}
		strangers := strings.Count(got, "stranger")
		if want := fmt.Sprint(refusals - strangers); strangers == refusals || !strings.HasSuffix(got, " "+want) {
			t.Errorf("the log has %d of %d refusals, and its last line is not the number of the others", strangers, refusals)
		}
	})
}

// With --audit-full=drop changes go on, and the log says how many entries it lacks.
func TestAuditThatDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		d := &disk{hangs: hangs}
		a := newAuditLog(hclog.NewNullLogger(), &auditFile{out: d}, auditDrop)
		for range auditQueueMax + 7 {
			if err := a.admit(t.Context()); err != nil {
				t.Fatal(err)
			}
			a.objects("change")
		}
		close(hangs)
		closed(t, a)
		if got := d.written(); strings.Count(got, "change") != auditQueueMax || !strings.HasSuffix(got, " 7") {
			t.Errorf("the log has %d changes", strings.Count(got, "change"))
		}
	})
}

// A disk that hangs does not hold up the stop of the node for longer than its bound.
func TestAuditThatHangsAtTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		a := newAuditLog(hclog.NewNullLogger(), &auditFile{out: &disk{hangs: hangs}}, auditRefuse)
		a.objects("lost")
		ctx, cancel := context.WithTimeout(t.Context(), auditStop)
		defer cancel()
		if err := a.close(ctx); err == nil || !strings.Contains(err.Error(), "the last 1 entries were not written") {
			t.Errorf("closed with %v", err)
		}
		close(hangs)
	})
}

// The entry that a crash has cut does not spoil the first one of the next process.
func TestAuditAfterACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(path, []byte(`{"object":"first"}`+"\n"+`{"obj`), 0o600); err != nil {
		t.Fatal(err)
	}
	a := openedAudit(t, path)
	a.objects("next")
	closed(t, a)
	if got := objects(t, path); got != "first ? next" {
		t.Errorf("the log has %s", got)
	}
}

// At SIGHUP the log continues in a new file, or in the one that is open if there can be none: no entry
// is lost.
func TestAuditThatIsRotated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	a := openedAudit(t, path)
	add := func(object, to string) {
		a.objects(object)
		for late := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
			data, _ := os.ReadFile(to) // it may not be there yet
			if got := objectsOf(string(data)); strings.HasSuffix(got, object) {
				return
			} else if time.Now().After(late) {
				t.Fatalf("%s has %s, without %s", to, got, object)
			}
		}
	}
	rotate := func(change error) {
		if change != nil {
			t.Fatal(change)
		}
		a.hangup <- syscall.SIGHUP
	}
	add("first", path)
	rotate(errors.Join(os.Rename(path, path+".1"), os.Mkdir(path, 0o700))) // the file cannot be opened
	add("later", path+".1")
	rotate(os.Remove(path))
	add("rotated", path)
	rotate(os.Rename(path, path+".2"))
	closed(t, a)
	if got := objects(t, path+".1") + ", " + objects(t, path+".2"); got != "first later, rotated" {
		t.Errorf("the logs have %s", got)
	}
}

// A pipe without a reader is refused at the start, and one that is read is never moved.
func TestAuditToAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	o := securityOptions{auditLog: path, auditFull: auditRefuse}
	if _, err := o.openAudit(hclog.NewNullLogger()); err == nil || !strings.Contains(err.Error(), "start the reader first") {
		t.Fatalf("opened with %v", err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	a := openedAudit(t, path)
	a.objects("one", "two")
	closed(t, a)
	data, err := io.ReadAll(reader)
	if got := objectsOf(string(data)); err != nil || got != "one two" {
		t.Errorf("the reader gets %s, %v", got, err)
	}
}

// Texts of a request cannot forge a line.
func TestAuditOfControlCharacters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	a := openedAudit(t, path)
	const forged = "x\"}\n{\"object\":\"forged\"}\r\n\u2028\u0085\x00\x7f\u009b31m\u202e\u2066\U000e0041"
	e := core.AuditEntry{Time: "t", Node: "n", Principal: forged, Address: forged, Action: forged, Object: forged, LSN: "1-1", Status: 1, Outcome: "ok"}
	a.add(e, true)
	closed(t, a)
	data, err := os.ReadFile(path)
	var got core.AuditEntry
	var fields map[string]any
	if err = errors.Join(err, json.Unmarshal(data, &got), json.Unmarshal(data, &fields)); err != nil || got != e || len(fields) != reflect.TypeFor[core.AuditEntry]().NumField() {
		t.Errorf("the log has %q, %v", data, err)
	}
	if bytes.ContainsFunc(data, func(r rune) bool { return r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf) }) {
		t.Errorf("a terminal obeys %q", data)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}
