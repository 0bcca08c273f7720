package file

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"osqueue/storage"
)

// stamp names one version of an object: these bytes (by hash) are this
// counter and nonce.
type stamp struct {
	counter uint64
	nonce   [8]byte
	sum     [sha256.Size]byte
}

// card is the content of a version card: the last two versions, oldest first.
// The older one is missing for an object that was just created, or whose
// previous bytes were foreign.
type card []stamp

const (
	cardHeader    = "osqueue-version 1\n"
	maxCardStamps = 2
	maxCardBytes  = 512
)

var errBadCard = errors.New("version card is damaged")

func (s stamp) version() storage.Version {
	return storage.Version(strconv.FormatUint(s.counter, 10) + "-" + hex.EncodeToString(s.nonce[:]))
}

// hashChunk is how much is hashed at a time. Go cannot interrupt the hash of one
// slice, and all goroutines wait for it whenever the garbage collector wants to
// begin: 100 MB in one go are a tenth of a second without heartbeats.
const hashChunk = 256 << 10

func hash(data []byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	for part := range slices.Chunk(data, hashChunk) {
		h.Write(part) // never fails
	}
	h.Sum(sum[:0])
	return sum
}

// foreignVersion is the version of bytes that no card names.
func foreignVersion(sum [sha256.Size]byte) storage.Version {
	return storage.Version("x-" + hex.EncodeToString(sum[:]))
}

// find returns the newest stamp of the bytes with this hash.
func (c card) find(sum [sha256.Size]byte) (stamp, bool) {
	for i := len(c) - 1; i >= 0; i-- {
		if c[i].sum == sum {
			return c[i], true
		}
	}
	return stamp{}, false
}

// next returns the stamp for the bytes that are to replace those with hash
// current, and the card that names both.
func (c card) next(current, data [sha256.Size]byte) (stamp, card) {
	s := stamp{counter: 1, sum: data}
	for _, old := range c {
		s.counter = max(s.counter, old.counter+1)
	}
	rand.Read(s.nonce[:]) // never fails: it ends the process instead
	if now, ok := c.find(current); ok {
		return s, card{now, s}
	}
	return s, card{s}
}

// encode returns the card as text: a header, then one line a stamp.
func (c card) encode() []byte {
	var b bytes.Buffer
	b.WriteString(cardHeader)
	for _, s := range c {
		fmt.Fprintf(&b, "%d %x %x\n", s.counter, s.nonce, s.sum)
	}
	return b.Bytes()
}

// decodeCard is the inverse of encode and accepts nothing else.
func decodeCard(data []byte) (card, error) {
	text, ok := strings.CutPrefix(string(data), cardHeader)
	if !ok || len(data) > maxCardBytes {
		return nil, fmt.Errorf("%w: no header %q", errBadCard, strings.TrimSpace(cardHeader))
	}
	var c card
	for line := range strings.Lines(text) {
		s, err := decodeStamp(line)
		if err != nil {
			return nil, err
		}
		c = append(c, s)
	}
	if len(c) == 0 || len(c) > maxCardStamps || !bytes.Equal(c.encode(), data) {
		return nil, fmt.Errorf("%w: not written by this program", errBadCard)
	}
	return c, nil
}

func decodeStamp(line string) (stamp, error) {
	var s stamp
	fields := strings.Split(strings.TrimSuffix(line, "\n"), " ")
	if len(fields) != 3 || len(fields[1]) != 2*len(s.nonce) || len(fields[2]) != 2*len(s.sum) {
		return s, fmt.Errorf("%w: odd line %q", errBadCard, line)
	}
	counter, err := strconv.ParseUint(fields[0], 10, 64)
	if err != nil {
		return s, fmt.Errorf("%w: %w", errBadCard, err)
	}
	s.counter = counter
	_, err1 := hex.Decode(s.nonce[:], []byte(fields[1]))
	_, err2 := hex.Decode(s.sum[:], []byte(fields[2]))
	if err := errors.Join(err1, err2); err != nil {
		return s, fmt.Errorf("%w: %w", errBadCard, err)
	}
	return s, nil
}
