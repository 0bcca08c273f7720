package document

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"osqueue/fsm"
)

// The header and the archive are written and read by their tags, with a few types of their
// own: LSNs are text in the form term-index, checksums are hex, durations are milliseconds,
// and an integer that JavaScript cannot represent is quoted.

// anyJSON accepts all JSON of RFC 8259, including lone surrogates, which JavaScript writes.
var anyJSON = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

var marshalers = json.JoinMarshalers(
	json.MarshalFunc(func(l fsm.LSN) ([]byte, error) { return quoted(l.String()), nil }),
	json.MarshalFunc(func(s Sum) ([]byte, error) { return quoted(hex.EncodeToString(s[:])), nil }),
	json.MarshalFunc(func(d time.Duration) ([]byte, error) { return strconv.AppendInt(nil, d.Milliseconds(), 10), nil }),
	json.MarshalFunc(func(n uint64) ([]byte, error) {
		if n > maxExact {
			return quoted(strconv.FormatUint(n, 10)), nil
		}
		return strconv.AppendUint(nil, n, 10), nil
	}),
	json.MarshalFunc(func(counts fsm.Counts) ([]byte, error) {
		buf := []byte{'{'}
		for s, n := range counts {
			if n == 0 {
				continue
			}
			if len(buf) > 1 {
				buf = append(buf, ',')
			}
			buf = append(strconv.AppendQuote(buf, fsm.Status(s).String()), ':')
			buf = strconv.AppendInt(buf, int64(n), 10)
		}
		return append(buf, '}'), nil
	}),
)

var unmarshalers = json.JoinUnmarshalers(
	json.UnmarshalFunc(func(b []byte, l *fsm.LSN) (err error) {
		text, err := unquote(b)
		if err == nil {
			*l, err = fsm.ParseLSN(text)
		}
		return err
	}),
	json.UnmarshalFunc(func(b []byte, s *Sum) error {
		text, err := unquote(b)
		if err != nil {
			return err
		}
		sum, err := hex.DecodeString(text)
		if err != nil || len(sum) != len(s) {
			return fmt.Errorf("must be a SHA-256 in hex, %d digits", 2*len(s))
		}
		*s = Sum(sum)
		return nil
	}),
	json.UnmarshalFunc(func(b []byte, d *time.Duration) error {
		n, err := strconv.ParseInt(string(b), 10, 64)
		*d = time.Duration(min(max(n, 0), msMax)) * time.Millisecond
		return err
	}),
	json.UnmarshalFunc(func(b []byte, n *uint64) (err error) {
		text := string(b)
		if len(b) > 0 && b[0] == '"' {
			text, err = unquote(b)
		}
		if err == nil {
			*n, err = strconv.ParseUint(text, 10, 64)
		}
		return err
	}),
	json.UnmarshalFunc(func(b []byte, counts *fsm.Counts) error {
		var byName map[string]uint64
		if err := json.Unmarshal(b, &byName); err != nil {
			return err
		}
		for name, n := range byName { // a status of a later version is skipped
			if s, ok := fsm.ParseStatus(name); ok {
				counts[s] = int(min(n, math.MaxInt))
			}
		}
		return nil
	}),
)

var (
	writing = json.JoinOptions(json.WithMarshalers(marshalers), jsontext.AllowInvalidUTF8(true))
	reading = json.JoinOptions(json.WithUnmarshalers(unmarshalers), jsontext.AllowInvalidUTF8(true))
)

// Marshal returns a value as JSON in the forms of the document. The type must have no value that
// cannot be encoded.
func Marshal(value any) []byte {
	text, err := json.Marshal(value, writing)
	if err != nil {
		panic(fmt.Sprintf("document: cannot encode %T: %v", value, err))
	}
	return text
}

// Unmarshal reads JSON in the forms of the document.
func Unmarshal(text []byte, to any, o ...json.Options) error {
	return json.Unmarshal(text, to, append(o, reading)...)
}

func quoted(text string) []byte { return strconv.AppendQuote(nil, text) }

func unquote(b []byte) (string, error) {
	if len(b) == 0 || b[0] != '"' {
		return "", fmt.Errorf("must be a string, not %s", jsontext.Value(b).Kind())
	}
	text, err := jsontext.AppendUnquote(nil, b)
	return string(text), err
}
