package raftlog

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"sync"
)

// Memory returns a disk without a disk: its content ends with the process. What is written counts as
// durable.
func Memory() Disk {
	return &memory{files: make(map[string]*memoryFile), votes: make(map[string][]byte)}
}

// Copy returns a copy of a disk that Memory has returned.
func Copy(d Disk) Disk {
	m := d.(*memory)
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &memory{files: make(map[string]*memoryFile), votes: maps.Clone(m.votes), witness: m.witness}
	for name, f := range m.files {
		f.mu.Lock()
		c.files[name] = &memoryFile{data: bytes.Clone(f.data)}
		f.mu.Unlock()
	}
	return c
}

type memory struct {
	mu      sync.Mutex
	files   map[string]*memoryFile
	votes   map[string][]byte
	witness Witnessed
}

var errNoValue = errors.New("not found") // raft compares this text

// Create implements Disk.
func (m *memory) Create(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files[name] != nil {
		return nil, fs.ErrExist
	}
	m.files[name] = new(memoryFile)
	return m.files[name], nil
}

// Open implements Disk.
func (m *memory) Open(name string) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.files[name]; f != nil {
		return f, nil
	}
	return nil, fs.ErrNotExist
}

// Rename implements Disk.
func (m *memory) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[to] = m.files[from]
	delete(m.files, from)
	return nil
}

// Remove implements Disk.
func (m *memory) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.files, name)
	return nil
}

// List implements Disk.
func (m *memory) List() ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.files)), nil
}

// SyncDir implements Disk.
func (m *memory) SyncDir() error { return nil }

// Free implements Disk.
func (m *memory) Free() (bytes int64, ok bool) { return 0, false }

// Set implements Disk.
func (m *memory) Set(key, val []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.votes[string(key)] = bytes.Clone(val)
	return nil
}

// Get implements Disk.
func (m *memory) Get(key []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.votes[string(key)]; ok {
		return bytes.Clone(v), nil
	}
	return nil, errNoValue
}

// LoadWitness implements Disk.
func (m *memory) LoadWitness() (Witnessed, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.witness, nil
}

// SaveWitness implements Disk.
func (m *memory) SaveWitness(w Witnessed) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.witness = w
	return nil
}

// Close implements Disk.
func (m *memory) Close() error { return nil }

// memoryFile is a File in memory.
type memoryFile struct {
	mu   sync.Mutex
	data []byte
}

// ReadAt implements io.ReaderAt.
func (f *memoryFile) ReadAt(p []byte, at int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return bytes.NewReader(f.data).ReadAt(p, at)
}

// WriteAt implements io.WriterAt.
func (f *memoryFile) WriteAt(p []byte, at int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if grow := int(at) + len(p) - len(f.data); grow > 0 {
		f.data = append(f.data, make([]byte, grow)...)
	}
	return copy(f.data[at:], p), nil
}

// Sync implements File.
func (f *memoryFile) Sync() error { return nil }

// Size implements File.
func (f *memoryFile) Size() (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return int64(len(f.data)), nil
}

// Close implements io.Closer.
func (f *memoryFile) Close() error { return nil }
