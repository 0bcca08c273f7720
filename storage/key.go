package storage

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Limits that every driver keeps, so that what works on one store works on
// all of them.
const (
	// MaxKeyBytes bounds a key. S3 and GCS allow 1024 bytes, part of which is
	// left to the prefix of the bucket's URL.
	MaxKeyBytes = 512
	// MaxSegmentBytes bounds one part of a key between slashes: a directory
	// bucket makes a file name of it.
	MaxSegmentBytes = 200
	// MaxObjectBytes bounds one object, because objects are held in memory.
	MaxObjectBytes = 1 << 30
)

// ValidateKey reports why key cannot name an object, wrapping ErrInvalidKey,
// or nil. A key is one or more segments joined by single slashes; a segment is
// made of letters, digits and any of . _ ~ = + @ , : - and does not begin with
// a dot. So a key is also a relative path that stays inside its directory, and
// no store escapes, folds or reinterprets any of its characters.
//
// On a directory bucket a key cannot at the same time be the beginning of
// another one (queue.json and queue.json/old); writes of the second fail.
func ValidateKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: the key is empty", ErrInvalidKey)
	}
	if len(key) > MaxKeyBytes {
		return fmt.Errorf("%w: %q… has %d bytes; at most %d are allowed", ErrInvalidKey, key[:32], len(key), MaxKeyBytes)
	}
	for segment := range strings.SplitSeq(key, "/") {
		if why := badSegment(segment); why != "" {
			return fmt.Errorf("%w: %q: %s", ErrInvalidKey, key, why)
		}
	}
	return nil
}

// ValidateWrite reports why data cannot be stored under key, or nil.
func ValidateWrite(key string, data []byte) error {
	if err := ValidateKey(key); err != nil {
		return err
	}
	if len(data) > MaxObjectBytes {
		return fmt.Errorf("object %q has %d bytes; at most %d are allowed: split it", key, len(data), MaxObjectBytes)
	}
	return nil
}

func badSegment(segment string) string {
	switch {
	case segment == "":
		return "it has an empty segment: use single slashes, none at either end"
	case segment[0] == '.':
		return "a segment begins with a dot"
	case len(segment) > MaxSegmentBytes:
		return fmt.Sprintf("a segment has %d bytes; at most %d are allowed", len(segment), MaxSegmentBytes)
	}
	for i := range len(segment) {
		if !keyByte(segment[i]) {
			return fmt.Sprintf("byte %q is not allowed: use letters, digits and . _ ~ = + @ , : -", segment[i])
		}
	}
	return ""
}

func keyByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return strings.IndexByte("._~=+@,:-", c) >= 0
}

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

// shownParams are the parameters of bucket URLs whose values are no secrets.
var shownParams = []string{"endpoint", "region"}

// RedactURL returns a bucket URL for messages: without a password, and without the values of
// parameters that no driver knows, because people write secret keys there by mistake.
func RedactURL(u *url.URL) string {
	shown := *u
	if shown.RawQuery != "" {
		values, err := url.ParseQuery(shown.RawQuery)
		if err != nil {
			shown.RawQuery = hidden
			return shown.Redacted()
		}
		for name, given := range values {
			for i, value := range given {
				inner, err := url.Parse(value)
				switch {
				case !slices.Contains(shownParams, name), err != nil:
					given[i] = hidden
				default:
					given[i] = inner.Redacted()
				}
			}
		}
		shown.RawQuery = values.Encode()
	}
	if shown.Fragment != "" {
		shown.Fragment, shown.RawFragment = hidden, ""
	}
	return shown.Redacted()
}

// hidden stands for a text that may be a secret, as in (*url.URL).Redacted.
const hidden = "xxxxx"
