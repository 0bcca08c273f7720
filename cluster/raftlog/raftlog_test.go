package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(reopen); dir != "" {
		os.Exit(reopened(dir, os.Getenv(reopenKind)))
	}
	goleak.VerifyTestMain(m)
}

type kind struct {
	name string
	open func(dir string) (*Log, error)
}

var kinds = []kind{
	{"bolt", OpenBolt},
	{"segments", func(dir string) (*Log, error) { return OpenSegments(dir, nil) }},
}

func each(t *testing.T, test func(t *testing.T, k kind, dir string)) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) { test(t, k, t.TempDir()) })
	}
}

func mustOpen(t *testing.T, k kind, dir string) *Log {
	t.Helper()
	l, err := k.open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// entry returns a log entry with a unique command.
func entry(i uint64) *raft.Log {
	return &raft.Log{Index: i, Term: 1 + i/10, Type: raft.LogCommand, Data: fmt.Appendf(nil, "command %d %s", i, bytes.Repeat([]byte{byte(i)}, 100))}
}

// fill writes n entries, votes and a term, in the order in which raft does.
func fill(t *testing.T, l *Log, n uint64) {
	t.Helper()
	must(t, l.SetUint64([]byte("CurrentTerm"), 6), l.SetUint64([]byte("CurrentTerm"), 7),
		l.SetUint64([]byte("LastVoteTerm"), 7), l.Set([]byte("LastVoteCand"), []byte("n2")))
	for i := uint64(1); i <= n; i++ {
		must(t, l.StoreLog(entry(i)))
	}
}

// holds checks that the log has the data that fill wrote, and nothing else.
func holds(t *testing.T, l *Log, n uint64) {
	t.Helper()
	must(t, asFilled(l, n))
}

func asFilled(l *Log, n uint64) error {
	for i := uint64(1); i <= n; i++ {
		if err := sameEntry(l, i); err != nil {
			return err
		}
	}
	term, err := l.GetUint64([]byte("CurrentTerm"))
	vote, errVote := l.Get([]byte("LastVoteCand"))
	if term != 7 || string(vote) != "n2" {
		return errors.Join(fmt.Errorf("term %d, vote %q", term, vote), err, errVote)
	}
	return nil
}

func sameEntry(l *Log, i uint64) error {
	var got raft.Log
	if err := l.GetLog(i, &got); err != nil {
		return err
	}
	want := entry(i)
	if got.Index != want.Index || got.Term != want.Term || got.Type != want.Type || !bytes.Equal(got.Data, want.Data) || len(got.Extensions) > 0 {
		return fmt.Errorf("entry %d: %+v", i, got)
	}
	return nil
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	each(t, func(t *testing.T, k kind, dir string) {
		l := mustOpen(t, k, dir)
		fill(t, l, 30)
		holds(t, l, 30)
		must(t, l.Close())
		l = mustOpen(t, k, dir)
		holds(t, l, 30)
		must(t, l.Close())
	})
}

func TestRaftsOwnEntriesStayAsTheyAre(t *testing.T) {
	l := mustOpen(t, kinds[0], t.TempDir())
	e := entry(1)
	must(t, l.StoreLog(e))
	if e.Extensions != nil {
		t.Fatal("the seal would be sent to other nodes")
	}
	must(t, l.Close())
}

func TestAnEmptyLogHasNoVotes(t *testing.T) {
	each(t, func(t *testing.T, k kind, dir string) {
		l := mustOpen(t, k, dir)
		if term, err := l.GetUint64([]byte("CurrentTerm")); term != 0 || err != nil && !notFound(err) {
			t.Fatal(term, err)
		}
		must(t, l.Close())
	})
}

// TestALogWithAHole reads a log with the hole that raft leaves after a restored state.
func TestALogWithAHole(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, kinds[0], dir)
	must(t, l.StoreLogs([]*raft.Log{entry(1), entry(2), entry(4), entry(5)}), l.Close())
	l = mustOpen(t, kinds[0], dir)
	if err := l.GetLog(3, new(raft.Log)); !errors.Is(err, raft.ErrLogNotFound) {
		t.Fatal(err)
	}
	must(t, l.Close())
}

// TestLogsOfOlderVersionsAreRead reads a log without checksums.
func TestLogsOfOlderVersionsAreRead(t *testing.T) {
	dir := t.TempDir()
	db, err := raftboltdb.NewBoltStore(filepath.Join(dir, "raft.db"))
	must(t, err)
	must(t, db.StoreLogs([]*raft.Log{entry(1), entry(2)}),
		db.SetUint64([]byte("CurrentTerm"), 7), db.Set([]byte("LastVoteCand"), []byte("n2")), db.Close())
	l := mustOpen(t, kinds[0], dir)
	holds(t, l, 2)
	must(t, l.StoreLog(entry(3)), l.SetUint64([]byte("CurrentTerm"), 7))
	holds(t, l, 3)
	must(t, l.Close())
}

// TestVotesOfManyGoroutines sets the term concurrently, as raft's main loop and its
// heartbeat handler do.
func TestVotesOfManyGoroutines(t *testing.T) {
	each(t, func(t *testing.T, k kind, dir string) {
		l := mustOpen(t, k, dir)
		term, cand := []byte("CurrentTerm"), []byte("LastVoteCand")
		var group errgroup.Group
		for g := range uint64(4) {
			group.Go(func() error {
				for i := range uint64(25) {
					_, errTerm := l.GetUint64(term)
					_, errCand := l.Get(cand)
					if notFound(errTerm) || notFound(errCand) {
						errTerm, errCand = nil, nil
					}
					if err := errors.Join(errTerm, errCand, l.SetUint64(term, 100*g+i), l.Set(cand, number(100*g+i))); err != nil {
						return err
					}
				}
				return nil
			})
		}
		must(t, group.Wait(), l.Close())
		must(t, mustOpen(t, k, dir).Close())
	})
}

// TestAVoteThatWasCutInTheMiddle checks that a node may die between the write of a vote's
// checksum and of the vote.
func TestAVoteThatWasCutInTheMiddle(t *testing.T) {
	each(t, func(t *testing.T, k kind, dir string) {
		l := mustOpen(t, k, dir)
		term, cand := []byte("CurrentTerm"), []byte("LastVoteCand")
		must(t, l.seal(term, number(1), number(0)), l.seal(cand, []byte("n1"), nil), l.Close())
		l = mustOpen(t, k, dir)
		must(t, l.SetUint64(term, 7), l.Set(cand, []byte("n2")))
		must(t, l.seal(term, number(8), number(7)), l.seal(cand, []byte("n3"), []byte("n2")), l.Close())
		l = mustOpen(t, k, dir)
		holds(t, l, 0)
		must(t, l.Close())
	})
}

func TestAWrongVoteIsNoticed(t *testing.T) {
	each(t, func(t *testing.T, k kind, dir string) {
		l := mustOpen(t, k, dir)
		fill(t, l, 3)
		must(t, l.store.SetUint64([]byte("CurrentTerm"), 3))
		if _, err := l.GetUint64([]byte("CurrentTerm")); !errors.Is(err, ErrDamaged) {
			t.Fatal(err)
		}
		must(t, l.Close())
		if _, err := k.open(dir); !errors.Is(err, ErrDamaged) {
			t.Fatalf("it opens: %v", err)
		}
	})
}

func TestAWrongEntryIsNoticed(t *testing.T) {
	for name, spoil := range map[string]func(*raft.Log){
		"data":  func(e *raft.Log) { e.Data[3] ^= 4 },
		"term":  func(e *raft.Log) { e.Term++ },
		"type":  func(e *raft.Log) { e.Type = raft.LogNoop },
		"index": func(e *raft.Log) { e.Index = 1 },
		"seal":  func(e *raft.Log) { e.Extensions[0]++ },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l := mustOpen(t, kinds[0], dir)
			fill(t, l, 1)
			e := entry(2)
			e.Extensions = sealOf(e)
			spoil(e)
			store := l.store
			must(t, store.StoreLogs([]*raft.Log{e}))
			if name == "index" { // its wrong index has overwritten the first entry
				e = entry(1)
				e.Extensions = sealOf(entry(2))
				must(t, store.StoreLogs([]*raft.Log{e}))
			}
			at := e.Index
			if err := l.GetLog(at, new(raft.Log)); !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			must(t, l.Close())
			if _, err := OpenBolt(dir); !errors.Is(err, ErrDamaged) {
				t.Fatalf("it opens: %v", err)
			}
		})
	}
}

// reopen is the environment variable of a process that only opens a log: on some damage a
// goroutine of bolt panics and ends the process.
const (
	reopen     = "OSQUEUE_TEST_REOPEN"
	reopenKind = "OSQUEUE_TEST_REOPEN_KIND"
)

// Exit codes of that process.
const (
	allThere  = 0
	panicked  = 2 // Go's exit code after a panic
	refused   = 10
	shortened = 11
	wrong     = 12
)

const written = 40

// reopened opens the log of a directory and returns the exit code for its content.
func reopened(dir, name string) int {
	k := kinds[slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })]
	l, err := k.open(dir)
	if errors.Is(err, ErrDamaged) {
		return refused
	}
	if err == nil {
		var last uint64
		if last, err = l.LastIndex(); err == nil {
			err = asFilled(l, last)
		}
		if err == nil && last < written {
			return shortened
		}
	}
	if err != nil {
		fmt.Println(err)
		return wrong
	}
	return allThere
}

// TestDamagedFiles damages one file of a closed log, one place at a time. The log must be
// refused, or have all written data, or lack only the newest entries. It must never have an
// entry, a vote or a term that was not written.
func TestDamagedFiles(t *testing.T) {
	each(t, func(t *testing.T, k kind, dir string) {
		l := mustOpen(t, k, dir)
		fill(t, l, written)
		must(t, l.Close())
		rng, ends := rand.New(rand.NewPCG(3, 2)), map[int]int{}
		for range 60 {
			damaged := filepath.Join(t.TempDir(), "data")
			must(t, os.CopyFS(damaged, os.DirFS(dir)))
			damage(t, rng, damaged)
			end, out := reopenedElsewhere(damaged, k)
			ends[end]++
			switch end {
			case allThere, refused:
			case shortened:
				if k.name != "bolt" {
					t.Errorf("entries are missing")
				}
			case panicked:
				if !bytes.Contains(out, []byte("bbolt")) {
					t.Errorf("%s", out)
				}
			default:
				t.Errorf("exit status %d: %s", end, out)
			}
			must(t, os.RemoveAll(damaged))
		}
		t.Logf("of 60 damaged files %d were refused by us, %d by bolt's panic, %d had lost their newest entries, of %d no page in use was hit",
			ends[refused], ends[panicked], ends[shortened], ends[allThere])
		if ends[refused] == 0 {
			t.Error("no damage was noticed")
		}
	})
}

func reopenedElsewhere(dir string, k kind) (exit int, out []byte) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), reopen+"="+dir, reopenKind+"="+k.name)
	out, _ = cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), out
}

// damage cuts off the end of a file below dir, or flips a bit in it. In a segment, which is
// mostly zeros, it flips bits among the entries.
func damage(t *testing.T, rng *rand.Rand, dir string) {
	t.Helper()
	var files []string
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	}))
	path := files[rng.IntN(len(files))]
	data, err := os.ReadFile(path)
	must(t, err)
	if rng.IntN(4) == 0 {
		must(t, os.Truncate(path, int64(rng.IntN(len(data)-1))))
		return
	}
	n := len(data)
	if filepath.Ext(path) == ".seg" {
		n = len(bytes.TrimRight(data, "\x00"))
	}
	data[rng.IntN(n)] ^= 1 << rng.IntN(8)
	must(t, os.WriteFile(path, data, 0o600))
}
