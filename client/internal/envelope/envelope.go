package envelope

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Mark is the name of the field that marks an object as an envelope.
const Mark = "osqueue.sealed"

// Version is the version of the format that this package writes.
const Version = 1

// The values of the field "to".
const (
	ToJob  = "job"
	ToCron = "cron"
)

// The kinds of content, the first part of the associated data.
const (
	KindPayload  = "payload"
	KindResult   = "result"
	KindError    = "error"
	KindLog      = "log"
	KindProgress = "progress"
	KindLive     = "live log" // a chunk of what a running attempt writes
	KindBlob     = "blob"     // the key of a stream
	KindStep     = "step"
	KindSignal   = "signal"
)

// ErrVersion is the error for an envelope of another version.
var ErrVersion = errors.New("it is encrypted in a format of another release")

// ErrDamaged is the error for an envelope that cannot be read.
var ErrDamaged = errors.New("its envelope is damaged")

var (
	markText   = []byte(`"` + Mark + `"`)
	textPrefix = Mark + ":"
	textHead   = textPrefix + strconv.Itoa(Version) + ":"
)

// JSON returns the envelope of a ciphertext.
func JSON(to string, ciphertext []byte) json.RawMessage {
	out := make([]byte, 0, base64.StdEncoding.EncodedLen(len(ciphertext))+64)
	out = append(out, '{')
	out = append(out, markText...)
	out = append(out, `:1,"to":"`...)
	out = append(out, to...)
	out = append(out, `","data":"`...)
	out = base64.StdEncoding.AppendEncode(out, ciphertext)
	return append(out, `"}`...)
}

// IsJSON reports whether raw is an object with the mark, whatever its version.
func IsJSON(raw json.RawMessage) bool {
	if !bytes.Contains(raw, markText) {
		return false
	}
	marked := false
	dec := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return false
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return marked
		}
		marked = marked || name.String() == Mark
		if dec.SkipValue() != nil {
			return marked
		}
	}
	return marked
}

// Envelope is the content of an envelope.
type Envelope struct {
	To         string
	Ciphertext []byte
}

// ParseJSON reads an envelope. Its error wraps ErrVersion or ErrDamaged.
func ParseJSON(raw json.RawMessage) (Envelope, error) {
	var version struct {
		N jsontext.Value `json:"osqueue.sealed"`
	}
	if err := jsonv2.Unmarshal(raw, &version); err != nil {
		return Envelope{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if n := string(version.N); n != strconv.Itoa(Version) {
		return Envelope{}, versionError(n)
	}
	var in struct {
		N    int    `json:"osqueue.sealed"`
		To   string `json:"to"`
		Data string `json:"data"`
	}
	if err := jsonv2.Unmarshal(raw, &in, jsonv2.RejectUnknownMembers(true)); err != nil {
		return Envelope{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if in.To != ToJob && in.To != ToCron {
		return Envelope{}, fmt.Errorf("%w: its field to is %q", ErrDamaged, in.To)
	}
	ciphertext, err := base64.StdEncoding.Strict().DecodeString(in.Data)
	if err != nil || len(ciphertext) == 0 {
		return Envelope{}, fmt.Errorf("%w: its data are not base64", ErrDamaged)
	}
	return Envelope{To: in.To, Ciphertext: ciphertext}, nil
}

func versionError(n string) error {
	const most = 20
	if len(n) > most {
		n = n[:most] + "…"
	}
	return fmt.Errorf("%w (version %s; this program reads version %d)", ErrVersion, n, Version)
}

// Text returns a ciphertext as a string.
func Text(ciphertext []byte) string {
	return textHead + base64.StdEncoding.EncodeToString(ciphertext)
}

// IsText reports whether text has the mark.
func IsText(text string) bool { return strings.HasPrefix(text, textPrefix) }

// ParseText returns the ciphertext in a string. Its error wraps ErrVersion or
// ErrDamaged.
func ParseText(text string) ([]byte, error) {
	data, ok := strings.CutPrefix(text, textHead)
	if !ok {
		n, _, _ := strings.Cut(strings.TrimPrefix(text, textPrefix), ":")
		return nil, versionError(n)
	}
	ciphertext, err := base64.StdEncoding.Strict().DecodeString(data)
	if err != nil || len(ciphertext) == 0 {
		return nil, fmt.Errorf("%w: its data are not base64", ErrDamaged)
	}
	return ciphertext, nil
}

// Bind returns the associated data of a content: the name of the format and the parts,
// each after its length, so that parts cannot be confused.
func Bind(parts ...string) []byte {
	out := []byte(Mark + "/1")
	for _, part := range parts {
		out = binary.BigEndian.AppendUint32(out, uint32(len(part)))
		out = append(out, part...)
	}
	return out
}
