package raftlog

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/cluster/transport"
)

// watched returns a log that watches its disk, and the errors for which its node must end.
func watched(t *testing.T, store Store, closing <-chan struct{}) (l *Log, fatal <-chan error) {
	c := make(chan error, 10)
	l = New(store, Options{Stall: time.Second, Fatal: func(err error) { c <- err }, Closing: closing})
	stop := make(chan struct{})
	go l.Run(stop)
	t.Cleanup(func() { close(stop) })
	return l, c
}

func TestWatchdogIsFatalWhenAWriteHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, fatal := watched(t, Memory(), nil)
		release := make(chan struct{})
		go l.write("append", 0, func() error { <-release; return nil })
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
		l, fatal := watched(t, Memory(), nil)
		for range 100 { // a write is under way at every look, and never the same one
			if err := l.write("append", 0, func() error { time.Sleep(150 * time.Millisecond); return nil }); err != nil {
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
		l, fatal := watched(t, Memory(), nil)
		full := errors.New("no space left")
		if err := l.write("append", 0, func() error { return full }); !errors.Is(err, full) {
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
		closing := make(chan struct{})
		l, fatal := watched(t, failing(Memory(), "SetUint64", &os.PathError{Op: "write", Path: "votes", Err: syscall.ENOSPC}), closing)
		done := make(chan error)
		go func() { done <- l.SetUint64([]byte("CurrentTerm"), 7) }()
		if err := <-fatal; !errors.Is(err, syscall.ENOSPC) {
			t.Error(err)
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

// A follower whose disk refuses to remove entries that others have replaced stops. The start of the
// log may stay until there is room again.
func TestAFailedRemovalOfTheEndIsFatal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, fails := Memory(), errors.New("no space left on device")
		for i := range uint64(5) {
			if err := mem.StoreLog(&raft.Log{Index: i + 1, Term: 1}); err != nil {
				t.Fatal(err)
			}
		}
		l, fatal := watched(t, failing(mem, "DeleteRange", fails), nil)
		if err := l.DeleteRange(1, 2); !errors.Is(err, fails) || len(fatal) > 0 {
			t.Errorf("the start: %v, fatal %d times", err, len(fatal))
		}
		if err := l.DeleteRange(4, 5); !errors.Is(err, fails) || len(fatal) != 1 {
			t.Errorf("the end: %v, fatal %d times", err, len(fatal))
		}
	})
}

// Every access of raft to a disk that hangs is fatal: reads, writes, and a write that waits for
// another access, here the removal of the start of the log.
func TestADiskThatHangsIsFatal(t *testing.T) {
	var entry raft.Log
	append3 := func(l *Log) { _ = l.StoreLog(&raft.Log{Index: 3, Term: 1}) }
	for name, c := range map[string]struct {
		hangs string
		does  []func(l *Log)
	}{
		"read an entry":  {"GetLog", []func(*Log){func(l *Log) { _ = l.GetLog(1, &entry) }}},
		"append":         {"StoreLogs", []func(*Log){append3}},
		"read the term":  {"GetUint64", []func(*Log){func(l *Log) { _, _ = l.GetUint64([]byte(keyTerm)) }}},
		"read the vote":  {"Get", []func(*Log){func(l *Log) { _, _ = l.Get([]byte("LastVoteCand")) }}},
		"write the term": {"SetUint64", []func(*Log){func(l *Log) { _ = l.SetUint64([]byte(keyTerm), 2) }}},
		"wait for another access": {"DeleteRange", []func(*Log){
			func(l *Log) { _ = l.DeleteRange(1, 1) },
			append3,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				closing := make(chan struct{})
				hangs, goOn := "", make(chan struct{})
				disk := &hookedDisk{Memory(), func(method string) error {
					if method == hangs {
						<-goOn
					}
					return nil
				}}
				if err := disk.Store.StoreLogs([]*raft.Log{{Index: 1, Term: 1}, {Index: 2, Term: 1}}); err != nil {
					t.Fatal(err)
				}
				l, fatal := watched(t, disk, closing)
				hangs = c.hangs
				for _, do := range c.does {
					go do(l)
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
				close(goOn)
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
				l, fatal := watched(t, Memory(), nil)
				write := func(h *hangingSnapshots) error {
					sink, err := l.Snapshots(h).Create(1, 1, 1, raft.Configuration{}, 1, nil)
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

// hookedDisk is a store that calls a function before each access, and fails if that does.
type hookedDisk struct {
	Store
	before func(method string) error
}

// failing returns a store of which one method fails.
func failing(s Store, method string, err error) *hookedDisk {
	return &hookedDisk{s, func(called string) error {
		if called == method {
			return err
		}
		return nil
	}}
}

func (h *hookedDisk) GetLog(index uint64, l *raft.Log) error {
	if err := h.before("GetLog"); err != nil {
		return err
	}
	return h.Store.GetLog(index, l)
}

func (h *hookedDisk) StoreLogs(logs []*raft.Log) error {
	if err := h.before("StoreLogs"); err != nil {
		return err
	}
	return h.Store.StoreLogs(logs)
}

func (h *hookedDisk) DeleteRange(from, to uint64) error {
	if err := h.before("DeleteRange"); err != nil {
		return err
	}
	return h.Store.DeleteRange(from, to)
}

func (h *hookedDisk) SetUint64(key []byte, val uint64) error {
	if err := h.before("SetUint64"); err != nil {
		return err
	}
	return h.Store.SetUint64(key, val)
}

func (h *hookedDisk) Get(key []byte) ([]byte, error) {
	if err := h.before("Get"); err != nil {
		return nil, err
	}
	return h.Store.Get(key)
}

func (h *hookedDisk) GetUint64(key []byte) (uint64, error) {
	if err := h.before("GetUint64"); err != nil {
		return 0, err
	}
	return h.Store.GetUint64(key)
}

// A large write of the log may take longer than a small one.
func TestWatchdogReckonsWithTheSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, fatal := watched(t, Memory(), nil)
		if err := l.write("append", 2*transport.AppendMaxBytes, func() error { time.Sleep(2500 * time.Millisecond); return nil }); err != nil || len(fatal) > 0 {
			t.Fatalf("%v, %d fatal", err, len(fatal))
		}
		release := make(chan struct{})
		go l.Watch("append", 0, func() error { <-release; return nil })
		time.Sleep(1500 * time.Millisecond)
		if len(fatal) != 1 {
			t.Error("it was not fatal at a small write")
		}
		close(release)
	})
}
