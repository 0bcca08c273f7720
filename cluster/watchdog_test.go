package cluster

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

func watched(t *testing.T) (d *watchdog, fatal <-chan error) {
	c := make(chan error, 10)
	d = &watchdog{limit: time.Second, fatal: func(err error) { c <- err }}
	stop := make(chan struct{})
	go d.run(stop)
	t.Cleanup(func() { close(stop) })
	return d, c
}

func TestWatchdogIsFatalWhenAWriteHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, fatal := watched(t)
		release := make(chan struct{})
		go d.watch("append", func() error { <-release; return nil })
		time.Sleep(900 * time.Millisecond)
		if len(fatal) > 0 {
			t.Fatal("it bit before its limit")
		}
		time.Sleep(300 * time.Millisecond)
		if len(fatal) != 1 {
			t.Fatal("it was not fatal")
		}
		close(release)
	})
}

func TestWatchdogLetsManyShortWritesPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, fatal := watched(t)
		for range 100 { // a write is under way at every look, and never the same one
			if err := d.watch("append", func() error { time.Sleep(150 * time.Millisecond); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if len(fatal) > 0 {
			t.Fatal(<-fatal)
		}
	})
}

func TestWatchdogIsFatalWhenAWriteFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, fatal := watched(t)
		full := errors.New("no space left")
		if err := d.watch("append", func() error { return full }); !errors.Is(err, full) {
			t.Fatal(err)
		}
		if err := <-fatal; !errors.Is(err, full) {
			t.Fatal(err)
		}
	})
}

// A term that cannot be stored is fatal, and raft, which would panic, gets no error.
func TestAFailedTermIsFatalWithoutAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, fatal := watched(t)
		closing := make(chan struct{})
		d.closing = closing
		g := &guardedLog{StableStore: fullDisk{}, dog: d}
		done := make(chan error)
		go func() { done <- g.SetUint64([]byte("CurrentTerm"), 7) }()
		err := explainFull("/data", <-fatal)
		if text := fmt.Sprint(err); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(text, "the disk of /data is full") ||
			explainFull("/data", err).Error() != text {
			t.Error(text)
		}
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("raft gets %v before the node is closed", err)
		default:
		}
		close(closing)
		if err := <-done; err != nil {
			t.Errorf("raft gets %v and panics", err)
		}
	})
}

// fullDisk is a store on a disk without room.
type fullDisk struct{ raft.StableStore }

// SetUint64 implements raft.StableStore.
func (fullDisk) SetUint64([]byte, uint64) error {
	return &os.PathError{Op: "write", Path: "votes", Err: syscall.ENOSPC}
}

// A follower whose disk refuses to remove entries that others have replaced stops. The start of the
// log may stay until there is room again.
func TestAFailedRemovalOfTheEndIsFatal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, fatal := watched(t)
		mem := raft.NewInmemStore()
		for i := range uint64(5) {
			if err := mem.StoreLog(&raft.Log{Index: i + 1, Term: 1}); err != nil {
				t.Fatal(err)
			}
		}
		fails := errors.New("no space left")
		g := &guardedLog{LogStore: brokenDelete{mem, fails}, StableStore: mem, dog: d}
		if err := g.DeleteRange(1, 2); !errors.Is(err, fails) || len(fatal) > 0 {
			t.Errorf("the start: %v, fatal %d times", err, len(fatal))
		}
		if err := g.DeleteRange(4, 5); !errors.Is(err, fails) || len(fatal) != 1 {
			t.Errorf("the end: %v, fatal %d times", err, len(fatal))
		}
	})
}
