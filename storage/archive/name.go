package archive

import (
	"crypto/rand"
	"fmt"
	"regexp"
	"strconv"

	"osqueue/fsm"
)

// Prefixes of the keys of all objects that this package writes.
const (
	checkpointPrefix = "checkpoint/"
	logPrefix        = "log/"
)

// kind is the kind of an object, as its name states it.
type kind int

const (
	segmentKind      kind = iota + 1
	segmentIndexKind      // names segments
	manifestKind          // of a checkpoint: it is written last, and removed first
	partKind              // of a checkpoint
)

// ofCheckpoint reports whether objects of the kind belong to a checkpoint.
func (k kind) ofCheckpoint() bool { return k == manifestKind || k == partKind }

// Ends of the keys of the kinds; parts are numbered.
const (
	segmentSuffix      = ".seg"
	segmentIndexSuffix = ".idx"
	manifestSuffix     = "/manifest.json" // sorts before the parts
)

// name is the parsed key of an object.
type name struct {
	kind    kind
	lineage string
	// after and last delimit the run of entries of a segment or segment index. For a
	// checkpoint, last is its LSN, and after is its prev.
	after, last fsm.LSN
	at          int64  // the machine's clock at last, ms
	id          string // of the attempt to write it
	part        string // the rest of a part's key
}

// newName names an object for one attempt to write it.
func newName(k kind, lineage string, after, last fsm.LSN, at int64) name {
	return name{kind: k, lineage: lineage, after: after, last: last, at: at, id: rand.Text()}
}

// directory returns the key prefix of a checkpoint's objects, or the stem of another key. It begins
// with last in a fixed width, so that the order of the keys is that of the LSNs.
func (n name) directory() string {
	prefix := logPrefix
	if n.kind.ofCheckpoint() {
		prefix = checkpointPrefix
	}
	return fmt.Sprintf("%s%s/%020d-%020d~%s~%d~%s", prefix, n.lineage, n.last.Term, n.last.Index, n.after, n.at, n.id)
}

func (n name) key() string {
	switch n.kind {
	case segmentKind:
		return n.directory() + segmentSuffix
	case segmentIndexKind:
		return n.directory() + segmentIndexSuffix
	case manifestKind:
		return n.directory() + manifestSuffix
	default:
		return n.directory() + "/" + n.part
	}
}

var keyPattern = regexp.MustCompile(`^(?:checkpoint|log)/([^/]+)/([0-9]+-[0-9]+)~([0-9]+-[0-9]+)~([0-9]+)~([0-9A-Za-z]+)` +
	`(\.seg|\.idx|/manifest\.json|/(part-[0-9]+))$`)

var kindsBySuffix = map[string]kind{segmentSuffix: segmentKind, segmentIndexSuffix: segmentIndexKind, manifestSuffix: manifestKind}

// parseName parses the key of an object of this package. ok is false for any other key: such an
// object is neither read nor deleted. It detects other spellings of the same numbers, and the prefix of another
// kind, by formatting the name again.
func parseName(key string) (n name, ok bool) {
	f := keyPattern.FindStringSubmatch(key)
	if f == nil {
		return name{}, false
	}
	n = name{kind: partKind, lineage: f[1], id: f[5], part: f[7]}
	if n.part == "" {
		n.kind = kindsBySuffix[f[6]]
	}
	var errs [3]error
	n.last, errs[0] = fsm.ParseLSN(f[2])
	n.after, errs[1] = fsm.ParseLSN(f[3])
	n.at, errs[2] = strconv.ParseInt(f[4], 10, 64)
	c := n.after.Compare(n.last)
	if errs != [3]error{} || c > 0 || c == 0 && !n.kind.ofCheckpoint() || n.key() != key {
		return name{}, false
	}
	return n, true
}
