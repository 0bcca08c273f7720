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
func watched(t *testing.T, disk Disk, closing <-chan struct{}) (l *Log, fatal <-chan error) {
	t.Helper()
	c := make(chan error, 10)
	l = open(t, disk, Options{Stall: time.Second, Fatal: func(err error) { c <- err }, Closing: closing, Size: 64 << 10})
	stop := make(chan struct{})
	go l.Run(stop)
	t.Cleanup(func() { close(stop) })
	return l, c
}

// write performs a write without an effect.
func write(l *Log, bytes int, fn func() error) error {
	return l.exclusive(func() error { return l.write("append", bytes, func() error { return l.unlocked(fn) }) })
}

func TestWatchdogIsFatalWhenAWriteHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, fatal := watched(t, Memory(), nil)
		release := make(chan struct{})
		go write(l, 0, func() error { <-release; return nil })
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
			if err := write(l, 0, func() error { time.Sleep(150 * time.Millisecond); return nil }); err != nil {
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
		if err := write(l, 0, func() error { return full }); !errors.Is(err, full) {
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
		l, fatal := watched(t, failing(sets, &os.PathError{Op: "write", Path: "votes", Err: syscall.ENOSPC}), closing)
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

// A follower whose disk refuses to remove entries that others have replaced stops. So does a node that cannot
// record where its log starts: nothing may be written after it.
func TestAFailedRemovalIsFatal(t *testing.T) {
	for what, remove := range map[string]func(*Log) error{
		truncates: func(l *Log) error { return l.DeleteRange(4, 5) },
		records:   func(l *Log) error { return l.DeleteRange(1, 2) },
	} {
		synctest.Test(t, func(t *testing.T) {
			fails, disk := errors.New("input/output error"), newHooked()
			l, fatal := watched(t, disk, nil)
			must(t, l.StoreLogs(entries(1, 5)))
			synctest.Wait()
			disk.before = failing(what, fails).before
			err := remove(l)
			synctest.Wait()
			if (what == truncates) != errors.Is(err, fails) || len(fatal) != 1 {
				t.Errorf("%s fails: %v, fatal %d times", what, err, len(fatal))
			}
			disk.before = func(what string) error { t.Error(what); return nil }
			if err := l.StoreLog(entry(6)); !errors.Is(err, fails) {
				t.Errorf("%s has failed, and an append: %v", what, err)
			}
		})
	}
}

// Every access of raft to a disk that hangs is fatal: reads, writes, and a write that waits for
// another access. So is the record of where the log starts.
func TestADiskThatHangsIsFatal(t *testing.T) {
	var got raft.Log
	append3 := func(l *Log) { _ = l.StoreLog(entry(3)) }
	for name, c := range map[string]struct {
		hangs string
		does  []func(l *Log)
	}{
		"read an entry":    {reads, []func(*Log){func(l *Log) { _ = l.GetLog(1, &got) }}},
		"append":           {appends, []func(*Log){append3}},
		"read the term":    {gets, []func(*Log){func(l *Log) { _, _ = l.GetUint64([]byte(keyTerm)) }}},
		"read the vote":    {gets, []func(*Log){func(l *Log) { _, _ = l.Get([]byte(keyVote)) }}},
		"write the term":   {sets, []func(*Log){func(l *Log) { _ = l.SetUint64([]byte(keyTerm), 2) }}},
		"remove the start": {records, []func(*Log){func(l *Log) { _ = l.DeleteRange(1, 1) }}},
		"wait for another access": {truncates, []func(*Log){
			func(l *Log) { _ = l.DeleteRange(2, 2) },
			append3,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				closing := make(chan struct{})
				goOn, disk := make(chan struct{}), newHooked()
				l, fatal := watched(t, disk, closing)
				must(t, l.StoreLogs(entries(1, 2)))
				forget(l)
				synctest.Wait()
				disk.before = func(what string) error {
					if what == c.hangs {
						<-goOn
					}
					return nil
				}
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

// A large write of the log may take longer than a small one.
func TestWatchdogReckonsWithTheSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, fatal := watched(t, Memory(), nil)
		if err := write(l, 2*transport.AppendMaxBytes, func() error { time.Sleep(2500 * time.Millisecond); return nil }); err != nil || len(fatal) > 0 {
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
