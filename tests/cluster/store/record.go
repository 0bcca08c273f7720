package store

import (
	"bytes"
	"slices"
	"sync"
	"time"
)

// record is the versions of the document, in order, and when each was seen.
type record struct {
	mu       sync.Mutex
	versions [][]byte
	times    []time.Time
}

// add records a version, unless it equals the last one.
func (r *record) add(data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.versions); n == 0 || !bytes.Equal(r.versions[n-1], data) {
		r.versions = append(r.versions, data)
		r.times = append(r.times, time.Now())
	}
}

func (r *record) all() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.versions)
}

func (r *record) when() []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.times)
}
