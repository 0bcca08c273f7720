package inbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"osqueue/storage"
)

// Prefix begins the keys of all that is in the box, and RejectedPrefix of what was
// rejected: it is not in the listing of the box, whose cost would grow with every file that
// nobody removes. takenPrefix begins the keys of marks: such a file is in the queue and could
// not be removed.
const (
	Prefix         = "inbox/"
	RejectedPrefix = "inbox-rejected/"
	takenPrefix    = "inbox-taken/"

	oldRejectedPrefix = Prefix + "rejected/" // of earlier versions
)

const (
	suffix       = ".json"
	reasonSuffix = ".reason" + suffix
)

// Key is where the job with that id is put. It is an error for an id that no
// object's name can hold: they are made of letters, digits and . _ ~ = + @ , : - and
// do not begin with a dot.
func Key(id string) (string, error) {
	key := Prefix + id + suffix
	if err := storage.ValidateKey(key); err != nil {
		return "", fmt.Errorf("id %q cannot be the name of a file in the drop box: %w", id, err)
	}
	if got, ok := idOf(key); !ok || got != id {
		return "", fmt.Errorf("id %q cannot be the name of a file in the drop box: leave the slashes out", id)
	}
	return key, nil
}

// idOf is the id of the job that a key of the box holds; ok is false for a key that
// holds none.
func idOf(key string) (id string, ok bool) {
	name, inside := strings.CutPrefix(key, Prefix)
	id, isJob := strings.CutSuffix(name, suffix)
	if !inside || !isJob || id == "" || strings.Contains(id, "/") || storage.ValidateKey(key) != nil {
		return "", false
	}
	return id, true
}

// isOldRejected reports whether an earlier version has rejected a file.
func isOldRejected(key string) bool { return strings.HasPrefix(key, oldRejectedPrefix) }

// stemMax bounds the part of an id that a rejected file's name repeats: with its
// suffixes it must fit into a segment of a key.
const stemMax = 150

// rejectedStem is the name of a rejected file, without its ending. The other one of
// the two names of a file is for when the first is taken by other bytes.
func rejectedStem(id string, data []byte, other bool) string {
	clash := strings.HasSuffix(id, strings.TrimSuffix(reasonSuffix, suffix)) // reads like the reason of another one
	if !other && !clash && len(id) <= stemMax {
		return id
	}
	h := sha256.New()
	h.Write([]byte(id))
	h.Write([]byte{0})
	h.Write(data)
	return fmt.Sprintf("%s~%s", id[:min(len(id), stemMax)], hex.EncodeToString(h.Sum(nil)[:8]))
}
