package store

import (
	"bytes"
	"slices"
	"sync"
)

// record is the versions of the document, in order.
type record struct {
	mu       sync.Mutex
	versions [][]byte
}

// add notes a version, unless it is the last one.
func (r *record) add(data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.versions); n == 0 || !bytes.Equal(r.versions[n-1], data) {
		r.versions = append(r.versions, data)
	}
}

func (r *record) all() [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.versions)
}
