package raftlog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"
)

func open(t *testing.T, d Disk, o Options) *Log {
	t.Helper()
	l, err := Open(d, o)
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	return l
}

func entry(i uint64) *raft.Log {
	return &raft.Log{
		Index: i, Term: 1 + i/10, Type: raft.LogType(i % 3), Data: fmt.Appendf(nil, "command %d", i), Extensions: []byte{byte(i)},
		AppendedAt: time.Unix(0, int64(i)),
	}
}

func entries(from, to uint64) (logs []*raft.Log) {
	for i := from; i <= to; i++ {
		logs = append(logs, entry(i))
	}
	return logs
}

// has checks that a log has the entries from first to last, and no others.
func has(t *testing.T, l *Log, first, last uint64) {
	t.Helper()
	forget(l)
	gotFirst, errFirst := l.FirstIndex()
	gotLast, errLast := l.LastIndex()
	must(t, errFirst, errLast)
	if gotFirst != first || gotLast != last {
		t.Fatalf("it has the entries %d to %d, want %d to %d", gotFirst, gotLast, first, last)
	}
	for i := uint64(1); i <= last+2; i++ {
		var e raft.Log
		err := l.GetLog(i, &e)
		if i < first || i > last {
			if !errors.Is(err, raft.ErrLogNotFound) {
				t.Fatalf("entry %d: %v, want that it is not found", i, err)
			}
			continue
		}
		want := entry(i)
		if err != nil || e.Index != want.Index || e.Term != want.Term || e.Type != want.Type || !bytes.Equal(e.Data, want.Data) ||
			!bytes.Equal(e.Extensions, want.Extensions) || !e.AppendedAt.Equal(want.AppendedAt) {
			t.Fatalf("entry %d is %+v: %v", i, e, err)
		}
	}
}

// TestLogStore checks what raft relies on.
func TestLogStore(t *testing.T) {
	l := open(t, files(t.TempDir()), Options{Size: 16 << 10})
	has(t, l, 0, 0)
	must(t, l.StoreLogs(nil), l.StoreLog(entry(5)), l.StoreLogs(entries(6, 20)))
	has(t, l, 5, 20)
	for name, logs := range map[string][]*raft.Log{
		"an entry that exists": entries(20, 21),
		"a hole":               {entry(21), entry(23)},
		"index 0":              {{Index: 0}},
	} {
		if err := l.check(logs); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if err := l.DeleteRange(7, 9); err == nil {
		t.Error("the middle is removed")
	}
	must(t, l.DeleteRange(1, 4), l.DeleteRange(21, 30), l.DeleteRange(9, 8))
	has(t, l, 5, 20)
	must(t, l.DeleteRange(5, 8))
	has(t, l, 9, 20)
	must(t, l.DeleteRange(18, 20))
	has(t, l, 9, 17)
	must(t, l.StoreLogs(entries(18, 19)), l.DeleteRange(1, 100))
	has(t, l, 0, 0)
	must(t, l.StoreLogs(entries(3, 4)))
	has(t, l, 3, 4)
	must(t, l.StoreLogs(entries(10, 12))) // a restored state is at 9
	has(t, l, 10, 12)
	if !l.IsMonotonic() {
		t.Error("raft would leave holes")
	}
}

func TestReopen(t *testing.T) {
	dir := files(t.TempDir())
	for i := range uint64(40) {
		l, err := Open(dir, Options{Size: 8 << 10, Spares: 1, Keep: 2})
		must(t, err)
		if i > 0 {
			first := uint64(1)
			if i > 20 {
				first = 20
			}
			has(t, l, first, 5*i)
		}
		must(t, l.StoreLogs(entries(5*i+1, 5*i+5)))
		if i == 20 {
			must(t, l.DeleteRange(1, 19))
			settle(l)
		}
		must(t, l.Close())
	}
}

// files returns the disk of a log whose files are in a directory, and whose votes are in memory.
func files(path string) Disk {
	type others struct{ Disk }
	return struct {
		dir
		others
	}{dir(path), others{Memory()}}
}

// work does one piece of the work that appends do not wait for.
func work(l *Log) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.workLocked()
}

// forget has all entries that are durable read from the disk.
func forget(l *Log) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.tail.cached > 0 {
		l.tail.drop()
	}
}

// settle waits until nothing is left to do.
func settle(l *Log) {
	for work(l) {
		time.Sleep(time.Millisecond)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.maintains {
		l.waitLocked(nil)
	}
}

// TestRandomOperations compares the log with a model, and opens it again now and then.
func TestRandomOperations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newPowerDisk(1)
		m := &model{entries: map[uint64]string{}}
		l, err := Open(d, small)
		for range rapid.IntRange(1, 12).Draw(t, "lives") {
			if err != nil {
				t.Fatal(err)
			}
			seed := rapid.Uint64().Draw(t, "seed")
			after, err := operate(l, m, rand.New(rand.NewPCG(seed, 3)), rapid.IntRange(0, 40).Draw(t, "steps"))
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if l, m, err = resume(d, after); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestSegmentsAreUsedAgain writes much more than the files of the log can have at a time.
func TestSegmentsAreUsedAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, files(dir), Options{Size: 64 << 10, Spares: 2, Keep: 4})
	data := make([]byte, 10<<10)
	for i := uint64(1); i <= 500; i++ {
		must(t, l.StoreLog(&raft.Log{Index: i, Term: 1, Data: data}))
		if i%20 == 0 {
			must(t, l.DeleteRange(1, i-10))
		}
	}
	settle(l)
	files, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	must(t, err)
	if len(files) > 8 {
		t.Errorf("there are %d segments", len(files))
	}
	if n := l.number; n > 40 {
		t.Errorf("%d segments were created", n)
	}
}

// TestLargeEntries writes entries that are larger than a segment.
func TestLargeEntries(t *testing.T) {
	dir := files(t.TempDir())
	l, err := Open(dir, Options{Size: 8 << 10})
	must(t, err)
	data := make([]byte, 3<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data)
	must(t, l.StoreLogs([]*raft.Log{
		{Index: 1, Data: []byte("a")}, {Index: 2, Data: data}, {Index: 3, Data: data[:100_000]}, {Index: 4, Data: []byte("b")},
	}))
	check := func() {
		t.Helper()
		forget(l)
		for i, want := range [][]byte{[]byte("a"), data, data[:100_000], []byte("b")} {
			var e raft.Log
			if err := l.GetLog(uint64(i)+1, &e); err != nil || !bytes.Equal(e.Data, want) {
				t.Fatalf("entry %d has %d bytes, want %d: %v", i+1, len(e.Data), len(want), err)
			}
		}
	}
	check()
	must(t, l.Close())
	l = open(t, dir, Options{Size: 8 << 10})
	check()
}

// TestFlippedBits flips each bit of some bytes of every used sector. The log must be refused:
// no acknowledged entry may be taken for an interrupted write, not even the last one.
func TestFlippedBits(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(files(dir), Options{Size: 8 << 10, Spares: 1})
	must(t, err)
	for i := uint64(1); i <= 30; i++ {
		must(t, l.StoreLog(&raft.Log{Index: i, Term: 1, Data: bytes.Repeat([]byte{byte(i)}, 700)}))
	}
	var used []*segment
	used = append(used, l.live...)
	must(t, l.Close())
	rng := rand.New(rand.NewPCG(1, 1))
	for _, s := range used {
		path := filepath.Join(dir, s.name)
		whole, err := os.ReadFile(path)
		must(t, err)
		for n := range s.end {
			data := bytes.Clone(whole)
			at := int(n)*sectorSize + rng.IntN(sectorSize)
			data[at] ^= 1 << rng.IntN(8)
			must(t, os.WriteFile(path, data, 0o600))
			if l, err := Open(files(dir), Options{Size: 8 << 10}); !errors.Is(err, ErrDamaged) {
				if err == nil {
					_ = l.Close()
				}
				t.Fatalf("byte %d of %s was damaged: %v", at, s.name, err)
			}
		}
		must(t, os.WriteFile(path, whole, 0o600))
	}
	must(t, open(t, files(dir), Options{}).GetLog(30, new(raft.Log)))
}

// TestLostSectors lets each sector of each acknowledged frame read as zeros, in the first frame of a
// segment as in every other one. Only the newest frame can be taken for an interrupted write.
func TestLostSectors(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(files(dir), Options{Size: 8 << 10, Spares: 1})
	must(t, err)
	const last = 19
	for i := uint64(1); i <= last; i++ {
		must(t, l.StoreLog(&raft.Log{Index: i, Term: 1, Data: bytes.Repeat([]byte{byte(i)}, 100*int(i%8))}))
	}
	used := append([]*segment(nil), l.live...)
	newest := used[len(used)-1].places[len(used[len(used)-1].places)-1].pos / payloadSize
	must(t, l.Close())
	if len(used) < 2 || newest < 3 {
		t.Fatalf("%d segments, and the newest entry is in sector %d", len(used), newest)
	}
	for _, s := range used {
		path := filepath.Join(dir, s.name)
		whole, err := os.ReadFile(path)
		must(t, err)
		end := s.end
		if s == used[len(used)-1] {
			end = newest
		}
		for n := uint32(1); n < end; n++ {
			data := bytes.Clone(whole)
			clear(data[n*sectorSize:][:sectorSize])
			must(t, os.WriteFile(path, data, 0o600))
			if l, err := Open(files(dir), Options{Size: 8 << 10}); !errors.Is(err, ErrDamaged) {
				if err == nil {
					_ = l.Close()
				}
				t.Errorf("sector %d of %s was lost: %v", n, s.name, err)
			}
		}
		must(t, os.WriteFile(path, whole, 0o600))
	}
	must(t, open(t, files(dir), Options{}).GetLog(last, new(raft.Log)))
}

// TestMissingFiles removes, empties and shortens each file that has a part of the log. The
// last segment is an exception: without it the log looks shorter.
func TestMissingFiles(t *testing.T) {
	dir := t.TempDir()
	l, err := Open(files(dir), Options{Size: 8 << 10, Spares: 1})
	must(t, err)
	for i := uint64(1); i <= 30; i++ {
		must(t, l.StoreLog(&raft.Log{Index: i, Term: 1, Data: make([]byte, 1000)}))
	}
	names := []string{metaName}
	for _, s := range l.live[:len(l.live)-1] {
		names = append(names, s.name)
	}
	must(t, l.Close())
	for _, name := range names {
		path := filepath.Join(dir, name)
		whole, err := os.ReadFile(path)
		must(t, err)
		for how, spoil := range map[string]func() error{
			"removed":   func() error { return os.Remove(path) },
			"emptied":   func() error { return os.WriteFile(path, nil, 0o600) },
			"shortened": func() error { return os.WriteFile(path, whole[:len(whole)-sectorSize], 0o600) },
			"zeroed":    func() error { return os.WriteFile(path, make([]byte, len(whole)), 0o600) },
		} {
			must(t, spoil())
			if l, err := Open(files(dir), Options{Size: 8 << 10}); !errors.Is(err, ErrDamaged) {
				if err == nil {
					_ = l.Close()
				}
				t.Fatalf("%s was %s: %v", name, how, err)
			}
			must(t, os.WriteFile(path, whole, 0o600))
		}
	}
}

// TestReadsAreVerified damages a file under an open log.
func TestReadsAreVerified(t *testing.T) {
	dir := t.TempDir()
	l := open(t, files(dir), Options{Size: 8 << 10})
	must(t, l.StoreLogs(entries(1, 3)))
	f, err := os.OpenFile(filepath.Join(dir, l.live[0].name), os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt([]byte{0xff}, sectorSize+60)
	must(t, err, f.Close())
	forget(l)
	if err := l.GetLog(1, new(raft.Log)); !errors.Is(err, ErrDamaged) {
		t.Fatal(err)
	}
}

// TestReadersAndTruncation reads while segments are used again. A reader gets the right
// entry, or none.
func TestReadersAndTruncation(t *testing.T) {
	t.Parallel()
	l := open(t, files(t.TempDir()), Options{Size: 8 << 10, Spares: 1, Keep: 2})
	var group errgroup.Group
	done := make(chan struct{})
	for range 2 {
		group.Go(func() error {
			for {
				select {
				case <-done:
					return nil
				default:
				}
				forget(l)
				first, _ := l.FirstIndex()
				var e raft.Log
				err := l.GetLog(first, &e)
				if first > 0 && !errors.Is(err, raft.ErrLogNotFound) && (err != nil || e.Index != first || string(e.Data[:7]) != "command") {
					return fmt.Errorf("entry %d is %v: %w", first, e, err)
				}
			}
		})
	}
	for i := uint64(1); i < 600; i++ {
		e := entry(i)
		e.Data = append(e.Data, make([]byte, 500)...)
		must(t, l.StoreLog(e))
		if i%7 == 0 {
			must(t, l.DeleteRange(1, i-3))
		}
	}
	close(done)
	must(t, group.Wait())
}

// fullDisk refuses new files.
type fullDisk struct {
	Disk
	full bool
}

func (f *fullDisk) Create(name string) (File, error) {
	if f.full {
		return nil, &os.PathError{Op: "write", Path: name, Err: syscall.ENOSPC}
	}
	return f.Disk.Create(name)
}

// TestFullDisk fills the disk of a log. It opens and works until its segment is full, says
// so ahead, and then fails for good.
func TestFullDisk(t *testing.T) {
	fs := &fullDisk{Disk: newPowerDisk(1)}
	l, err := Open(fs, small)
	must(t, err)
	must(t, l.StoreLog(entry(1)), l.Close())
	fs.full = true
	var warned bytes.Buffer
	o := small
	o.Logger = hclog.New(&hclog.LoggerOptions{Output: &warned})
	l, err = Open(fs, o)
	must(t, err)
	for work(l) {
	}
	spares := len(l.spares)
	for i := uint64(2); ; i++ {
		err = l.StoreLog(entry(i))
		if err != nil {
			break
		}
		if i > uint64(spares+1)*16<<10/sectorSize {
			t.Fatal("it does not get full")
		}
	}
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(warned.String(), syscall.ENOSPC.Error()) {
		t.Errorf("it fails with %v after the warning %s", err, &warned)
	}
	fs.full = false
	if err := l.StoreLog(entry(2)); err == nil {
		t.Error("a write is accepted after one has failed")
	}
	must(t, l.GetLog(1, new(raft.Log)), l.Close())
}

// crowdedDisk has no space for a file of more than limit bytes.
type crowdedDisk struct {
	Disk
	limit, free int64
}

func (c crowdedDisk) Free() (int64, bool) { return c.free, c.free > 0 }

func (c crowdedDisk) Create(name string) (File, error) {
	f, err := c.Disk.Create(name)
	return crowdedFile{f, c.limit}, err
}

type crowdedFile struct {
	File
	limit int64
}

func (f crowdedFile) WriteAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) > f.limit {
		return 0, syscall.ENOSPC
	}
	return f.File.WriteAt(p, at)
}

// TestLittleSpace has a log use smaller segments when there is no space for others, and
// prepare none that it does not need.
func TestLittleSpace(t *testing.T) {
	for _, free := range []int64{-1, 1 << 20} {
		fs := newPowerDisk(1)
		o := Options{Size: 1 << 20, inline: true}
		l := open(t, crowdedDisk{fs, 1 << 18, free}, o)
		for i := uint64(1); i < 1000; i++ {
			must(t, l.StoreLog(entry(i)))
			work(l)
		}
		if len(l.live) < 3 {
			t.Errorf("%d bytes free: there are %d segments", free, len(l.live))
		}
		if len(l.spares) > 0 {
			t.Errorf("%d bytes free: %d segments are prepared", free, len(l.spares))
		}
		must(t, l.StoreLog(&raft.Log{Index: 1000, Term: 200, Data: make([]byte, 1<<17)}))
		must(t, l.DeleteRange(1, 900))
		for work(l) {
		}
		must(t, l.Close())
		l = open(t, fs, o)
		if last, err := l.LastIndex(); err != nil || last != 1000 {
			t.Errorf("%d bytes free: the last entry is %d (%v)", free, last, err)
		}
		must(t, l.Close())
	}
}

// counter counts the operations of a disk.
type counter struct {
	Disk
	names *[]string
}

func (c counter) Open(name string) (File, error) {
	f, err := c.Disk.Open(name)
	return countedFile{f, c.names}, err
}

func (c counter) Create(name string) (File, error) {
	*c.names = append(*c.names, "create")
	f, err := c.Disk.Create(name)
	return countedFile{f, c.names}, err
}

func (c counter) Remove(name string) error {
	*c.names = append(*c.names, "remove")
	return c.Disk.Remove(name)
}

func (c counter) SyncDir() error {
	*c.names = append(*c.names, "syncdir")
	return c.Disk.SyncDir()
}

type countedFile struct {
	File
	names *[]string
}

func (f countedFile) WriteAt(p []byte, at int64) (int, error) {
	*f.names = append(*f.names, "write")
	return f.File.WriteAt(p, at)
}

func (f countedFile) Sync() error {
	*f.names = append(*f.names, "sync")
	return f.File.Sync()
}

// TestOperationsOfAWrite counts what an append and a truncation ask of the disk.
func TestOperationsOfAWrite(t *testing.T) {
	var names []string
	l := open(t, counter{newPowerDisk(1), &names}, small)
	for work(l) {
	}
	expect := func(what string, want string, fn func() error) {
		t.Helper()
		names = nil
		must(t, fn())
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	must(t, l.StoreLogs(entries(1, 20))) // creates the first segment
	for i := uint64(21); i < 80; i++ {   // into the second segment, too
		for work(l) {
		}
		expect("an append", "write sync", func() error { return l.StoreLog(entry(i)) })
	}
	if len(l.live) < 2 {
		t.Fatal("there is only one segment")
	}
	expect("a truncation of the start", "", func() error { return l.DeleteRange(1, 70) })
	expect("a truncation of the end", "write sync", func() error { return l.DeleteRange(75, 79) })
}

func FuzzFrame(f *testing.F) {
	var b builder
	logs := entries(1, 3)
	size := frameHeader
	for _, e := range logs {
		size += sizeOf(e)
	}
	head := frame{kind: kindEntries, count: 3, length: uint32(size), first: 1, seq: 1}
	data, _ := b.build(1, 1, 1, 64, head, logs)
	f.Add(bytes.Clone(data), true)
	f.Add(bytes.Clone(data[:sectorSize]), false)
	f.Fuzz(func(t *testing.T, data []byte, sealed bool) {
		data = data[:len(data)/sectorSize*sectorSize]
		b := append(make([]byte, sectorSize), data...)
		salt := salt(1)
		if sealed {
			for i := 1; i < len(b)/sectorSize; i++ {
				salt.seal(b[i*sectorSize:][:sectorSize], uint32(i), 1, 1)
			}
		}
		c := &scan{segment: &segment{gen: 1, sectors: uint32(len(b) / sectorSize)}}
		if err := salt.scan(c, b, new([]byte)); err != nil {
			return
		}
		for _, f := range c.frames {
			if f.kind == kindEntries && len(f.places) != int(f.count) {
				t.Errorf("%d places of %d entries", len(f.places), f.count)
			}
			for i, p := range f.places {
				c.file = &handle{newPowerDisk(1), &inode{data: b}}
				var e raft.Log
				if err := c.read(salt, p, f.first+uint64(i), &e); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

func FuzzHeaders(f *testing.F) {
	f.Add(header{log: 1, size: 8192, gen: 1}.sector())
	f.Add(meta{log: 1, n: 1, start: 1}.sector())
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) != sectorSize {
			return
		}
		if h, err := decodeHeader(b, 1); err == nil && h.size < 2*sectorSize {
			t.Error(h)
		}
		for slot := range uint32(2) {
			if m, err := decodeMeta(b, slot); err == nil && m.n > 0 && m.slot() != int64(slot)*blockSize {
				t.Error(m)
			}
		}
	})
}

// TestNoSignalIsLost appends faster than segments are prepared, while readers contend for the
// lock: an append that waits for a segment must always be woken.
func TestNoSignalIsLost(t *testing.T) {
	t.Parallel()
	l := open(t, newPowerDisk(1), Options{Size: 8 << 10, Spares: 1, Keep: 1})
	done := make(chan struct{})
	var group errgroup.Group
	for range 2 {
		group.Go(func() error {
			for {
				select {
				case <-done:
					return nil
				default:
					_, _ = l.FirstIndex()
				}
			}
		})
	}
	n := uint64(20_000)
	if testing.Short() {
		n = 2000
	}
	for i := uint64(1); i < n; i++ {
		e := entry(i)
		e.Data = append(e.Data, make([]byte, 5000)...)
		must(t, l.StoreLog(e))
		must(t, l.DeleteRange(1, i-1))
	}
	close(done)
	must(t, group.Wait())
}
