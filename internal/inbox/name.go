package inbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"osqueue/storage"
)

// Prefix is the prefix of all keys in the inbox. RejectedPrefix is the prefix of rejected
// files; the listing of the inbox does not include them, because its cost would grow with
// every file that is never removed. takenPrefix is the prefix of the marks of files that
// are in the queue and could not be removed.
const (
	Prefix         = "inbox/"
	RejectedPrefix = "inbox-rejected/"
	takenPrefix    = "inbox-taken/"
)

const (
	suffix       = ".json"
	reasonSuffix = ".reason" + suffix
)

// Key returns the key of the file for the job with that id. It returns an error for an id
// that an object name cannot contain: an id consists of letters, digits and . _ ~ = + @ , :
// - and does not begin with a dot.
func Key(id string) (string, error) {
	key := Prefix + id + suffix
	if err := storage.ValidateKey(key); err != nil {
		return "", fmt.Errorf("id %q cannot be the name of a file in the inbox: %w", id, err)
	}
	if got, ok := idOf(key); !ok || got != id {
		return "", fmt.Errorf("id %q cannot be the name of a file in the inbox: remove the slashes", id)
	}
	return key, nil
}

// idOf returns the id of the job in a file of the inbox; ok is false if key is not the key
// of a job.
func idOf(key string) (id string, ok bool) {
	name, inside := strings.CutPrefix(key, Prefix)
	id, isJob := strings.CutSuffix(name, suffix)
	if !inside || !isJob || id == "" || strings.Contains(id, "/") || storage.ValidateKey(key) != nil {
		return "", false
	}
	return id, true
}

// stemMax is the maximum length of the part of an id in the name of a rejected file, bytes:
// with its suffixes it must fit into a segment of a key.
const stemMax = 150

// rejectedStem returns the name of a rejected file without its ending. other selects the
// second name, for the case that the first one has other bytes.
func rejectedStem(id string, data []byte, other bool) string {
	clash := strings.HasSuffix(id, strings.TrimSuffix(reasonSuffix, suffix)) // looks like the reason of another file
	if !other && !clash && len(id) <= stemMax {
		return id
	}
	h := sha256.New()
	h.Write([]byte(id))
	h.Write([]byte{0})
	h.Write(data)
	return fmt.Sprintf("%s~%s", id[:min(len(id), stemMax)], hex.EncodeToString(h.Sum(nil)[:8]))
}
