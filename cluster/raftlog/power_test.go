package raftlog

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
)

// powerDisk simulates a file system that can lose its power. Unsynced data is kept or lost
// sector by sector; of several writes to one sector any may be the last one to reach the
// disk. It fails every operation from the one with the number cutAt on.
type powerDisk struct {
	Disk   // has the votes and the witness, which are not part of the simulation
	mu     sync.Mutex
	rng    *rand.Rand
	names  map[string]*inode // as the process sees them
	synced map[string]*inode // as after the last SyncDir
	ops    []func(map[string]*inode)

	done, cutAt int
	failSync    int // number of the operation that fails as a sync, and loses the writes
}

// inode is a file.
type inode struct {
	data    []byte // as the process sees it
	durable []byte
	pending map[int][][]byte // versions of each sector since the last sync
}

var errPower = errors.New("the power is off")

var errSync = errors.New("the sync fails")

func newPowerDisk(seed uint64) *powerDisk {
	return &powerDisk{Disk: Memory(), rng: rand.New(rand.NewPCG(seed, 1)), names: map[string]*inode{}, synced: map[string]*inode{}, cutAt: -1, failSync: -1}
}

// step counts an operation. begun is false if it has no effect, and err is its error. The
// operation during which the power fails may have an effect.
func (d *powerDisk) step() (begun bool, err error) {
	d.done++
	switch {
	case d.cutAt < 0 || d.done < d.cutAt:
		return true, nil
	case d.done == d.cutAt:
		return true, errPower
	}
	return false, errPower
}

// cut returns the disk as it is when the power is on again.
func (d *powerDisk) cut() *powerDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := newPowerDisk(d.rng.Uint64())
	next.synced = maps.Clone(d.synced)
	for _, op := range d.ops {
		if d.rng.IntN(2) == 0 {
			op(next.synced)
		}
	}
	style := d.rng.IntN(4) // all is lost, all is kept, and twice anything between
	after := map[*inode]*inode{}
	for name, i := range next.synced {
		if after[i] == nil {
			after[i] = i.cut(d.rng, style)
		}
		next.synced[name] = after[i]
	}
	next.names = maps.Clone(next.synced)
	return next
}

func (i *inode) cut(rng *rand.Rand, style int) *inode {
	data := slices.Clone(i.durable)
	if len(i.data) > len(data) && (style == 1 || style > 1 && rng.IntN(2) == 0) {
		data = append(data, make([]byte, len(i.data)-len(data))...)
	}
	for _, n := range slices.Sorted(maps.Keys(i.pending)) {
		versions := i.pending[n]
		keep := rng.IntN(len(versions)+1) - 1 // -1: the durable one
		switch style {
		case 0:
			keep = -1
		case 1:
			keep = len(versions) - 1
		}
		if at := n * sectorSize; keep >= 0 && at < len(data) {
			copy(data[at:], versions[keep])
		}
	}
	return &inode{data: data, durable: slices.Clone(data), pending: map[int][][]byte{}}
}

// restart returns the same disk for the next process, without a loss of power.
func (d *powerDisk) restart() *powerDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cutAt, d.failSync = -1, -1
	return d
}

func (d *powerDisk) dirOp(op func(map[string]*inode)) {
	op(d.names)
	d.ops = append(d.ops, op)
}

// Create implements Disk.
func (d *powerDisk) Create(name string) (File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	begun, err := d.step()
	if !begun {
		return nil, err
	}
	if d.names[name] != nil {
		return nil, fs.ErrExist
	}
	i := &inode{pending: map[int][][]byte{}}
	d.dirOp(func(names map[string]*inode) { names[name] = i })
	return &handle{disk: d, inode: i}, err
}

// Open implements Disk.
func (d *powerDisk) Open(name string) (File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := d.names[name]; i != nil {
		return &handle{disk: d, inode: i}, nil
	}
	return nil, fs.ErrNotExist
}

// Rename implements Disk.
func (d *powerDisk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	begun, err := d.step()
	if !begun {
		return err
	}
	i := d.names[from]
	if i == nil {
		return fs.ErrNotExist
	}
	d.dirOp(func(names map[string]*inode) {
		names[to] = i
		delete(names, from)
	})
	return err
}

// Remove implements Disk.
func (d *powerDisk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	begun, err := d.step()
	if !begun {
		return err
	}
	d.dirOp(func(names map[string]*inode) { delete(names, name) })
	return err
}

// List implements Disk.
func (d *powerDisk) List() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.names)), nil
}

// SyncDir implements Disk.
func (d *powerDisk) SyncDir() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.step(); err != nil {
		return err
	}
	d.synced, d.ops = maps.Clone(d.names), nil
	return nil
}

// handle is an open file.
type handle struct {
	disk  *powerDisk
	inode *inode
}

// ReadAt implements io.ReaderAt.
func (h *handle) ReadAt(p []byte, at int64) (int, error) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	if at > int64(len(h.inode.data)) {
		return 0, io.EOF
	}
	n := copy(p, h.inode.data[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements io.WriterAt. Offsets and sizes are multiples of the sector's size. If
// the power fails, a part of the sectors is written.
func (h *handle) WriteAt(p []byte, at int64) (int, error) {
	d, i := h.disk, h.inode
	d.mu.Lock()
	defer d.mu.Unlock()
	begun, err := d.step()
	if !begun {
		return 0, err
	}
	if at%sectorSize != 0 || len(p)%sectorSize != 0 {
		panic("a write is not aligned to sectors")
	}
	for n := 0; n < len(p); n += sectorSize {
		if err != nil && d.rng.IntN(3) == 0 {
			continue
		}
		pos := int(at) + n
		if end := pos + sectorSize; end > len(i.data) {
			i.data = append(i.data, make([]byte, end-len(i.data))...)
		}
		copy(i.data[pos:], p[n:n+sectorSize])
		number := pos / sectorSize
		i.pending[number] = append(i.pending[number], slices.Clone(p[n:n+sectorSize]))
	}
	if err != nil {
		return len(p) / 2, err
	}
	return len(p), nil
}

// Sync implements File. When it fails, the kernel takes the writes for clean: the process
// still reads them, and no later sync makes them durable.
func (h *handle) Sync() error {
	d, i := h.disk, h.inode
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.step()
	if d.done == d.failSync {
		i.pending = map[int][][]byte{}
		i.grow()
		return errSync
	}
	if err != nil {
		return err
	}
	i.grow()
	for n, versions := range i.pending {
		copy(i.durable[n*sectorSize:], versions[len(versions)-1])
	}
	i.pending = map[int][][]byte{}
	return nil
}

func (i *inode) grow() {
	if n := len(i.data) - len(i.durable); n > 0 {
		i.durable = append(i.durable, make([]byte, n)...)
	}
}

// Size implements File.
func (h *handle) Size() (int64, error) {
	h.disk.mu.Lock()
	defer h.disk.mu.Unlock()
	return int64(len(h.inode.data)), nil
}

// Close implements io.Closer.
func (h *handle) Close() error { return nil }
