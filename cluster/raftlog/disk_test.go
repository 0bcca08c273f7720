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
	"testing"

	"github.com/hashicorp/raft"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(reopen); dir != "" {
		os.Exit(reopened(dir))
	}
	goleak.VerifyTestMain(m)
}

func mustOpen(t *testing.T, dir string) *Log {
	t.Helper()
	l, err := OpenDir(dir, Options{})
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
	if got.Index != want.Index || got.Term != want.Term || got.Type != want.Type || !bytes.Equal(got.Data, want.Data) || !bytes.Equal(got.Extensions, want.Extensions) {
		return fmt.Errorf("entry %d: %+v", i, got)
	}
	return nil
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	fill(t, l, 30)
	holds(t, l, 30)
	must(t, l.Close())
	l = mustOpen(t, dir)
	holds(t, l, 30)
	must(t, l.Close())
}

// TestVotesOfManyGoroutines sets the term concurrently, as raft's main loop and its
// heartbeat handler do.
func TestVotesOfManyGoroutines(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
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
	must(t, mustOpen(t, dir).Close())
}

// TestAVoteThatWasCutInTheMiddle checks that a node may die between the write of a vote's
// checksum and of the vote.
func TestAVoteThatWasCutInTheMiddle(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	term, cand := []byte("CurrentTerm"), []byte("LastVoteCand")
	must(t, votes{l.disk}.seal(term, number(1), nil), votes{l.disk}.seal(cand, []byte("n1"), nil), l.Close())
	l = mustOpen(t, dir)
	must(t, l.SetUint64(term, 7), l.Set(cand, []byte("n2")))
	must(t, votes{l.disk}.seal(term, number(8), number(7)), votes{l.disk}.seal(cand, []byte("n3"), []byte("n2")), l.Close())
	l = mustOpen(t, dir)
	holds(t, l, 0)
	must(t, l.Close())
}

func TestAWrongVoteIsNoticed(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	fill(t, l, 3)
	must(t, l.disk.Set([]byte("CurrentTerm"), number(3)))
	if _, err := l.GetUint64([]byte("CurrentTerm")); !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
	must(t, l.Close())
	if _, err := OpenDir(dir, Options{}); !errors.Is(err, ErrDamaged) {
		t.Fatalf("it opens: %v", err)
	}
}

// reopen is the environment variable of a process that only opens a log: on some damage a
// goroutine of bolt panics and ends the process.
const reopen = "OSQUEUE_TEST_REOPEN"

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
func reopened(dir string) int {
	l, err := OpenDir(dir, Options{})
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
	dir := t.TempDir()
	l := mustOpen(t, dir)
	fill(t, l, written)
	must(t, l.Close())
	rng, ends := rand.New(rand.NewPCG(3, 2)), map[int]int{}
	for range 60 {
		damaged := filepath.Join(t.TempDir(), "data")
		must(t, os.CopyFS(damaged, os.DirFS(dir)))
		spoil(t, rng, damaged)
		end, out := reopenedElsewhere(damaged)
		ends[end]++
		switch end {
		case allThere, refused:
		case shortened:
			t.Errorf("entries are missing")
		case panicked:
			if !bytes.Contains(out, []byte("bbolt")) {
				t.Errorf("%s", out)
			}
		default:
			t.Errorf("exit status %d: %s", end, out)
		}
		must(t, os.RemoveAll(damaged))
	}
	t.Logf("of 60 damaged files %d were refused by us, %d by bolt's panic, of %d no page in use was hit",
		ends[refused], ends[panicked], ends[allThere])
	if ends[refused] == 0 {
		t.Error("no damage was noticed")
	}
}

func reopenedElsewhere(dir string) (exit int, out []byte) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), reopen+"="+dir)
	out, _ = cmd.CombinedOutput()
	return cmd.ProcessState.ExitCode(), out
}

// spoil cuts off the end of a file below dir, or flips a bit in it. In a segment, which is
// mostly zeros, it flips bits among the entries.
func spoil(t *testing.T, rng *rand.Rand, dir string) {
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

// A part of the log that is missing was lost, and must not be created empty: with it the node would vote
// twice.
func TestAMissingPartIsNoticed(t *testing.T) {
	for _, name := range []string{"votes.db", "log", "log/meta"} {
		dir := t.TempDir()
		l := mustOpen(t, dir)
		fill(t, l, 3)
		must(t, l.Close(), os.RemoveAll(filepath.Join(dir, "raft", name)))
		if _, err := OpenDir(dir, Options{}); !errors.Is(err, ErrDamaged) {
			t.Errorf("without %s it opens: %v", name, err)
		}
	}
}

// A value without its checksum was not written by this package.
func TestAVoteWithoutChecksumIsNoticed(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	must(t, l.disk.Set([]byte("LastVoteCand"), []byte("n3")), l.Close())
	if _, err := OpenDir(dir, Options{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("it opens: %v", err)
	}
}

// A crash while the log is created leaves nothing that counts.
func TestACutCreation(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "raft.tmp", "log"), 0o700), os.WriteFile(filepath.Join(dir, "raft.tmp", "votes.db"), []byte("x"), 0o600))
	l := mustOpen(t, dir)
	fill(t, l, 3)
	holds(t, l, 3)
	must(t, l.Close())
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}
