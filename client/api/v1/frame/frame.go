package frame

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
)

// Path is the route of the HTTP API at which a stream begins, by an upgrade to Protocol.
const (
	Path     = "/v1/stream"
	Protocol = "osqueue-stream" // value of the header Upgrade
)

// Version is the version of the protocol that this package implements.
const Version = 1

// Kind is the kind of a frame.
type Kind uint8

// The kinds of frames. A reader skips frames of other kinds.
const (
	KindHello   Kind = 1 // both sides: the first frame, a Hello
	KindRequest Kind = 2 // client: a Request
	KindAnswer  Kind = 3 // server: the Answer to the request with the same id
	KindCancel  Kind = 4 // client: the caller does not wait for the answer to the request with that id; no body
	KindPing    Kind = 5 // both sides: asks for a pong with the same id; no body
	KindPong    Kind = 6 // both sides: the answer to a ping; no body
	KindMoved   Kind = 7 // server: open no more requests on this connection; a Moved
)

// HeadBytes is the size of the head of a frame: the length of the body, the kind and the id.
const HeadBytes = 9

// Head is the head of a frame.
type Head struct {
	Length uint32 // of the body, in bytes
	Kind   Kind
	ID     uint32 // of the request; 0 for frames about the connection
}

// ReadHead reads the head of a frame. It returns io.EOF if the stream ends before the frame.
func ReadHead(r io.Reader, buf *[HeadBytes]byte) (Head, error) {
	if _, err := io.ReadFull(r, buf[:]); err != nil {
		return Head{}, err
	}
	return ParseHead(buf), nil
}

// ParseHead returns the head in b.
func ParseHead(b *[HeadBytes]byte) Head {
	return Head{
		Length: binary.BigEndian.Uint32(b[0:4]),
		Kind:   Kind(b[4]),
		ID:     binary.BigEndian.Uint32(b[5:9]),
	}
}

// AppendHead appends the head h.
func AppendHead(b []byte, h Head) []byte {
	b = binary.BigEndian.AppendUint32(b, h.Length)
	b = append(b, byte(h.Kind))
	return binary.BigEndian.AppendUint32(b, h.ID)
}

// Message is the body of a frame.
type Message interface {
	// Append appends the encoded message to b.
	Append(b []byte) []byte
}

// errLong means that a body is too long for the length of a frame.
var errLong = errors.New("the body of a frame must be shorter than 4 GiB")

// Append appends a frame with the body m. A nil m means no body.
func Append(b []byte, k Kind, id uint32, m Message) ([]byte, error) {
	at := len(b)
	b = AppendHead(b, Head{Kind: k, ID: id})
	if m == nil {
		return b, nil
	}
	b = m.Append(b)
	n := len(b) - at - HeadBytes
	if n > math.MaxUint32 {
		return b[:at], errLong
	}
	binary.BigEndian.PutUint32(b[at:], uint32(n))
	return b, nil
}

// Bytes is a body that is encoded already.
type Bytes []byte

// Append implements Message.
func (m Bytes) Append(b []byte) []byte { return append(b, m...) }
