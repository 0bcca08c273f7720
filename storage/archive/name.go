package archive

import (
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"

	"osqueue/fsm"
)

// Prefixes of the keys of all objects that this package writes.
const (
	checkpointPrefix = "base/"
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
	manifestSuffix     = "/manifest.json"
	partPrefix         = "part-" // sorts behind the manifest
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
	if n.kind == manifestKind || n.kind == partKind {
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

// parseName parses the key of an object of this package. ok is false for any other key: such an
// object is neither read nor deleted.
func parseName(key string) (n name, ok bool) {
	rest, isCheckpoint := strings.CutPrefix(key, checkpointPrefix)
	if !isCheckpoint {
		if rest, ok = strings.CutPrefix(key, logPrefix); !ok {
			return name{}, false
		}
	}
	lineage, rest, ok := strings.Cut(rest, "/")
	if !ok || lineage == "" {
		return name{}, false
	}
	n.lineage = lineage
	var stem string
	if isCheckpoint {
		stem, n.kind, n.part, ok = cutCheckpoint(rest)
	} else {
		stem, n.kind, ok = cutLog(rest)
	}
	if !ok || !n.parseStem(stem) || n.key() != key {
		return name{}, false
	}
	return n, true
}

// cutCheckpoint splits the name of a checkpoint's object.
func cutCheckpoint(s string) (stem string, k kind, part string, ok bool) {
	if stem, ok = strings.CutSuffix(s, manifestSuffix); ok {
		return stem, manifestKind, "", true
	}
	stem, part, ok = strings.Cut(s, "/")
	number, isPart := strings.CutPrefix(part, partPrefix)
	return stem, partKind, part, ok && isPart && only(number, isDigit)
}

// cutLog splits the name of an object of the log.
func cutLog(s string) (stem string, k kind, ok bool) {
	if stem, ok = strings.CutSuffix(s, segmentSuffix); ok {
		return stem, segmentKind, true
	}
	stem, ok = strings.CutSuffix(s, segmentIndexSuffix)
	return stem, segmentIndexKind, ok
}

// parseStem parses <last>~<after>~<ms>~<id>. It detects other spellings of the same numbers by
// formatting the name again.
func (n *name) parseStem(stem string) bool {
	fields := strings.Split(stem, "~")
	if len(fields) != 4 {
		return false
	}
	var errs [3]error
	n.last, errs[0] = fsm.ParseLSN(fields[0])
	n.after, errs[1] = fsm.ParseLSN(fields[1])
	n.at, errs[2] = strconv.ParseInt(fields[2], 10, 64)
	if errs != [3]error{} || n.at < 0 {
		return false
	}
	n.id = fields[3]
	c := n.after.Compare(n.last)
	return only(n.id, isAlphanumeric) && (c < 0 || c == 0 && (n.kind == manifestKind || n.kind == partKind))
}

// only reports whether s is not empty and such holds for all of its bytes.
func only(s string, such func(c byte) bool) bool {
	for i := range len(s) {
		if !such(s[i]) {
			return false
		}
	}
	return s != ""
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isAlphanumeric(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
