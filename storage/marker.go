package storage

import (
	"crypto/rand"
	"strings"
)

// MarkerKey is the key of the object that says that a bucket belongs to a cluster, although it
// has no document. A directory gets it with its first document. On a store it exists only if
// `osqueue bucket adopt` has made it.
const MarkerKey = "bucket-id"

// NewMarker returns the content of a new marker.
func NewMarker() []byte { return []byte(rand.Text() + "\n") }

// MarkerID returns the id in a marker, or "" if its content is not complete.
func MarkerID(data []byte) string {
	id, ok := strings.CutSuffix(string(data), "\n")
	if !ok || len(id) != len(rand.Text()) || strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
		return ""
	}
	return id
}
