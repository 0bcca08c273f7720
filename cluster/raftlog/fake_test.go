package raftlog

import (
	"encoding/binary"
	"slices"

	"github.com/hashicorp/raft"
)

// hooked is a disk in memory that calls a function before each access to the segments, to meta and to the votes has
// an effect. The access fails if that does.
type hooked struct {
	Disk
	before func(what string) error
	frame  func(f frame, logs []*raft.Log) // called for each frame that is durable, unless nil
}

func newHooked() *hooked { return &hooked{Disk: Memory(), before: func(string) error { return nil }} }

// What a hooked disk does.
const (
	appends   = "append"
	truncates = "truncate"
	records   = "record the start"
	reads     = "read an entry"
	sets      = "write a vote"
	gets      = "read a vote"
)

// failing returns a disk of which one access fails.
func failing(what string, err error) *hooked {
	h := newHooked()
	h.before = func(does string) error {
		if does == what {
			return err
		}
		return nil
	}
	return h
}

func (h *hooked) Create(name string) (File, error) {
	f, err := h.Disk.Create(name)
	return &hookedFile{File: f, disk: h, name: name}, err
}

func (h *hooked) Open(name string) (File, error) {
	f, err := h.Disk.Open(name)
	return &hookedFile{File: f, disk: h, name: name}, err
}

func (h *hooked) Set(key, val []byte) error {
	if err := h.before(sets); err != nil {
		return err
	}
	return h.Disk.Set(key, val)
}

func (h *hooked) Get(key []byte) ([]byte, error) {
	if err := h.before(gets); err != nil {
		return nil, err
	}
	return h.Disk.Get(key)
}

type hookedFile struct {
	File
	disk   *hooked
	name   string
	frame  frame  // not synced; kind 0: none
	frames []byte // its sectors
}

func (f *hookedFile) ReadAt(p []byte, at int64) (int, error) {
	if err := f.disk.before(reads); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, at)
}

func (f *hookedFile) WriteAt(p []byte, at int64) (int, error) {
	if binary.LittleEndian.Uint32(p) == frameMagic {
		f.frame, _ = decodeFrame(p)
		f.frames = slices.Clone(p)
	}
	return f.File.WriteAt(p, at)
}

func (f *hookedFile) Sync() error {
	what := map[uint32]string{kindEntries: appends, kindTruncate: truncates}[f.frame.kind]
	if f.name == metaName {
		what = records
	}
	if what == "" {
		return nil
	}
	if err := f.disk.before(what); err != nil {
		return err
	}
	if f.disk.frame != nil && f.frame.kind > 0 {
		f.disk.frame(f.frame, f.entries())
	}
	f.frame = frame{}
	return nil
}

// entries decodes the entries of the frame.
func (f *hookedFile) entries() (logs []*raft.Log) {
	b := joinPayloads(f.frames)[frameHeader:]
	for range f.frame.count {
		e := new(raft.Log)
		n, err := decodeEntry(b, e)
		if err != nil {
			panic(err)
		}
		b, logs = b[n:], append(logs, e)
	}
	return logs
}
