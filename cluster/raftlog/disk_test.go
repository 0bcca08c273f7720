package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mustOpen(t *testing.T, dir string) *Disk {
	t.Helper()
	l, err := Open(dir, nil)
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
func fill(t *testing.T, l *Disk, n uint64) {
	t.Helper()
	must(t, l.SetUint64([]byte("CurrentTerm"), 6), l.SetUint64([]byte("CurrentTerm"), 7),
		l.SetUint64([]byte("LastVoteTerm"), 7), l.Set([]byte("LastVoteCand"), []byte("n2")))
	for i := uint64(1); i <= n; i++ {
		must(t, l.StoreLog(entry(i)))
	}
}

// holds checks that the log has the data that fill wrote, and nothing else.
func holds(t *testing.T, l *Disk, n uint64) {
	t.Helper()
	must(t, asFilled(l, n))
}

func asFilled(l *Disk, n uint64) error {
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

func sameEntry(l *Disk, i uint64) error {
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
	l := New(mustOpen(t, dir), Options{})
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
				if err := errors.Join(errTerm, errCand, l.SetUint64(term, 100*g+i), l.SetUint64(cand, 100*g+i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	must(t, group.Wait(), l.Close())
	must(t, mustOpen(t, dir).Close())
}

// A crash while a vote is written leaves the old one, and what it left goes away.
func TestAVoteThatWasCutInTheMiddle(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	fill(t, l, 0)
	left := filepath.Join(dir, "raft", ".votes.1.tmp")
	must(t, l.Close(), os.WriteFile(left, []byte("x"), 0o600))
	l = mustOpen(t, dir)
	holds(t, l, 0)
	must(t, l.Close())
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", left, err)
	}
}

// A value that this package did not write is noticed.
func TestAWrongVoteIsNoticed(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	fill(t, l, 3)
	must(t, l.Close())
	path := filepath.Join(dir, "raft", "votes")
	data, err := os.ReadFile(path)
	must(t, err)
	_, text, _ := bytes.Cut(data, []byte("\n"))
	for _, wrong := range [][]byte{text, bytes.Replace(data, []byte("bjI="), []byte("bjM="), 1)} { // n2, n3
		must(t, os.WriteFile(path, wrong, 0o600))
		if _, err := Open(dir, nil); !errors.Is(err, ErrDamaged) {
			t.Errorf("%q: it opens: %v", wrong, err)
		}
	}
}

// Two nodes with one log would vote twice.
func TestASecondNodeIsKeptOut(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	if _, err := Open(dir, nil); err == nil || !strings.Contains(err.Error(), "the log is in use") {
		t.Errorf("a second node opens the log: %v", err)
	}
	must(t, l.Close())
	must(t, mustOpen(t, dir).Close())
}

const written = 40

// reopened opens the log of a directory, and returns nil if it has all data or is refused.
func reopened(dir string) (refused bool, err error) {
	l, err := Open(dir, nil)
	if errors.Is(err, ErrDamaged) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, errors.Join(asFilled(l, written), l.Close())
}

// TestDamagedFiles damages one file of a closed log, one place at a time. The log must be
// refused, or have all written data: some damage is where there is none.
func TestDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	fill(t, l, written)
	must(t, l.Close())
	rng, refused := rand.New(rand.NewPCG(3, 2)), 0
	for i := range 60 {
		damaged := filepath.Join(t.TempDir(), "data")
		must(t, os.CopyFS(damaged, os.DirFS(dir)))
		damage(t, rng, damaged)
		noticed, err := reopened(damaged)
		if err != nil {
			t.Errorf("damage %d: %v", i, err)
		}
		if noticed {
			refused++
		}
		must(t, os.RemoveAll(damaged))
	}
	if refused == 0 {
		t.Error("no damage was noticed")
	}
}

// damage cuts off the end of a file below dir, or flips a bit in it. In a segment, which is
// mostly zeros, it flips bits among the entries.
func damage(t *testing.T, rng *rand.Rand, dir string) {
	t.Helper()
	var files []string
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && e.Name() != "lock" { // it is empty
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
	for _, name := range []string{"votes", "log", "log/meta"} {
		dir := t.TempDir()
		l := mustOpen(t, dir)
		fill(t, l, 3)
		must(t, l.Close(), os.RemoveAll(filepath.Join(dir, "raft", name)))
		if _, err := Open(dir, nil); !errors.Is(err, ErrDamaged) {
			t.Errorf("without %s it opens: %v", name, err)
		}
	}
}

// A crash while the log is created leaves nothing that counts.
func TestACutCreation(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "raft.tmp", "log"), 0o700), os.WriteFile(filepath.Join(dir, "raft.tmp", "votes"), []byte("x"), 0o600))
	l := mustOpen(t, dir)
	fill(t, l, 3)
	holds(t, l, 3)
	must(t, l.Close())
	if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}
