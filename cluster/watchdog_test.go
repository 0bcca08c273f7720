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
		go d.write("append", 0, func() error { <-release; return nil })
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
			if err := d.write("append", 0, func() error { time.Sleep(150 * time.Millisecond); return nil }); err != nil {
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
		if err := d.write("append", 0, func() error { return full }); !errors.Is(err, full) {
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

// Every access of raft to a disk that hangs is fatal: reads, writes, and a write that waits for
// another access, here the removal of the start of the log.
func TestADiskThatHangsIsFatal(t *testing.T) {
	var entry raft.Log
	append3 := func(s *stores) { _ = s.log.StoreLog(&raft.Log{Index: 3, Term: 1}) }
	for name, c := range map[string]struct {
		hangs string
		does  []func(s *stores)
	}{
		"read an entry":  {"GetLog", []func(*stores){func(s *stores) { _ = s.log.GetLog(1, &entry) }}},
		"append":         {"StoreLogs", []func(*stores){append3}},
		"read the term":  {"GetUint64", []func(*stores){func(s *stores) { _, _ = s.stable.GetUint64([]byte(keyTerm)) }}},
		"read the vote":  {"Get", []func(*stores){func(s *stores) { _, _ = s.stable.Get([]byte("LastVoteCand")) }}},
		"write the term": {"SetUint64", []func(*stores){func(s *stores) { _ = s.stable.SetUint64([]byte(keyTerm), 2) }}},
		"wait for another access": {"DeleteRange", []func(*stores){
			func(s *stores) { _ = s.log.DeleteRange(1, 1) },
			append3,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, fatal := watched(t)
				closing := make(chan struct{})
				d.closing = closing
				disk := &hangingDisk{InmemStore: raft.NewInmemStore(), goOn: make(chan struct{})}
				if err := disk.InmemStore.StoreLogs([]*raft.Log{{Index: 1, Term: 1}, {Index: 2, Term: 1}}); err != nil {
					t.Fatal(err)
				}
				s := guard(&Config{}, disk, d)
				disk.hangs = c.hangs
				for _, do := range c.does {
					go do(s)
					time.Sleep(10 * time.Millisecond) // the first access is under way
				}
				time.Sleep(800 * time.Millisecond)
				if len(fatal) > 0 {
					t.Errorf("fatal before the limit: %v", <-fatal)
				}
				time.Sleep(400 * time.Millisecond)
				if len(fatal) != 1 {
					t.Errorf("fatal %d times, want once", len(fatal))
				}
				close(disk.goOn)
				close(closing)
			})
		})
	}
}

// A snapshot whose writing hangs is fatal. One that fails is not: raft tries again.
func TestASnapshotThatHangsIsFatal(t *testing.T) {
	for _, method := range []string{"Create", "Write", "Close"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, fatal := watched(t)
				write := func(h *hangingSnapshots) error {
					sink, err := watchedSnapshots{h, d}.Create(1, 1, 1, raft.Configuration{}, 1, nil)
					if err != nil {
						return err
					}
					if _, err := sink.Write([]byte("x")); err != nil {
						return err
					}
					return sink.Close()
				}
				full := errors.New("no space left")
				if err := write(&hangingSnapshots{in: method, err: full}); !errors.Is(err, full) || len(fatal) > 0 {
					t.Errorf("%v, fatal %d times", err, len(fatal))
				}
				goOn := make(chan struct{})
				go func() { _ = write(&hangingSnapshots{in: method, goOn: goOn}) }()
				time.Sleep(1200 * time.Millisecond)
				if len(fatal) != 1 {
					t.Errorf("fatal %d times, want once", len(fatal))
				}
				close(goOn)
			})
		})
	}
}

// hangingSnapshots is a store of snapshots and a snapshot in it, of which one method waits until goOn is
// closed, or fails.
type hangingSnapshots struct {
	raft.SnapshotStore
	raft.SnapshotSink
	in   string
	goOn chan struct{}
	err  error
}

func (h *hangingSnapshots) do(method string) error {
	if h.in != method {
		return nil
	}
	if h.goOn != nil {
		<-h.goOn
	}
	return h.err
}

func (h *hangingSnapshots) Create(
	raft.SnapshotVersion, uint64, uint64, raft.Configuration, uint64, raft.Transport,
) (raft.SnapshotSink, error) {
	return h, h.do("Create")
}

func (h *hangingSnapshots) Write(p []byte) (int, error) { return len(p), h.do("Write") }
func (h *hangingSnapshots) Close() error                { return h.do("Close") }

// hangingDisk is a store of which one method waits until goOn is closed.
type hangingDisk struct {
	*raft.InmemStore
	hangs string
	goOn  chan struct{}
}

func (h *hangingDisk) await(method string) {
	if h.hangs == method {
		<-h.goOn
	}
}

func (h *hangingDisk) Close() error { return nil }

func (h *hangingDisk) GetLog(index uint64, l *raft.Log) error {
	h.await("GetLog")
	return h.InmemStore.GetLog(index, l)
}

func (h *hangingDisk) StoreLogs(logs []*raft.Log) error {
	h.await("StoreLogs")
	return h.InmemStore.StoreLogs(logs)
}

func (h *hangingDisk) DeleteRange(from, to uint64) error {
	h.await("DeleteRange")
	return h.InmemStore.DeleteRange(from, to)
}

func (h *hangingDisk) Get(key []byte) ([]byte, error) {
	h.await("Get")
	return h.InmemStore.Get(key)
}

func (h *hangingDisk) GetUint64(key []byte) (uint64, error) {
	h.await("GetUint64")
	return h.InmemStore.GetUint64(key)
}

func (h *hangingDisk) SetUint64(key []byte, val uint64) error {
	h.await("SetUint64")
	return h.InmemStore.SetUint64(key, val)
}
