package blob

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Sum is a sha-256.
type Sum = [sha256.Size]byte

// Manifest describes a blob. Its fields with a name in JSON are those of its object.
type Manifest struct {
	Key    string `json:"-"` // of the manifest's own object
	Sum    Sum    `json:"-"` // of the manifest's own object
	Stored int64  `json:"-"` // bytes in the bucket, those of the manifest included

	Format      string         `json:"format"`
	Version     int            `json:"version"`
	Compression string         `json:"compression"`
	Raw         int64          `json:"raw"`    // bytes of the stream
	RawSum      Sum            `json:"sha256"` // of the stream
	Parts       []Part         `json:"parts"`
	Meta        jsontext.Value `json:"meta,omitzero"` // JSON of the writer's, without white space; nil: none
}

// Part describes one object of the stream.
type Part struct {
	Bytes int64 `json:"bytes"`
	Sum   Sum   `json:"sha256"`
}

// forms has the forms of values in a manifest: sums are in hex.
var forms = json.JoinOptions(
	json.WithMarshalers(json.MarshalFunc(func(s Sum) ([]byte, error) { return strconv.AppendQuote(nil, hex.EncodeToString(s[:])), nil })),
	json.WithUnmarshalers(json.UnmarshalFunc(func(text []byte, s *Sum) error {
		sum, err := hex.DecodeString(strings.Trim(string(text), `"`))
		if err != nil || text[0] != '"' || len(sum) != len(s) {
			return fmt.Errorf("%s is not a SHA-256 in hex", text)
		}
		*s = Sum(sum)
		return nil
	})))

// The format and version that a manifest states.
const (
	format      = "osqueue blob"
	version     = 1
	compression = "zstd"
)

const manifestName = "/manifest.json"

// ManifestKey is the key of the manifest of the blob with that prefix.
func ManifestKey(prefix string) string { return prefix + manifestName }

// partKey returns the key of a part, which sorts behind the manifest's.
func partKey(prefix string, i int) string { return fmt.Sprintf("%s/part-%06d", prefix, i) }

// encode is the manifest's object. It sets what follows from that.
func (m *Manifest) encode() ([]byte, error) {
	m.Format, m.Version, m.Compression = format, version, compression
	data, err := json.Marshal(m, forms, jsontext.WithIndent("  "), jsontext.PreserveRawStrings(true)) // the meta's are the caller's
	if err != nil {
		return nil, err
	}
	data = append(data, '\n')
	m.identify(data)
	return data, nil
}

// identify sets what follows from the object.
func (m *Manifest) identify(data []byte) {
	m.Sum, m.Stored = sha256.Sum256(data), int64(len(data))
	for _, p := range m.Parts {
		m.Stored += p.Bytes
	}
}

// decodeManifest reads a manifest's object. The result shares no memory with
// data; Key is not set.
func decodeManifest(data []byte) (*Manifest, error) {
	m := &Manifest{}
	if err := json.Unmarshal(data, m, forms); err != nil {
		return nil, err
	}
	switch {
	case m.Format != format:
		return nil, fmt.Errorf("the manifest has the format %q; expected %q", m.Format, format)
	case m.Version != version || m.Compression != compression:
		return nil, fmt.Errorf("the blob has version %d and compression %q; this release reads only version %d and %q: use the "+
			"release that wrote it",
			m.Version, m.Compression, version, compression)
	case m.Raw < 0:
		return nil, fmt.Errorf("the manifest names a stream of %d bytes, which is not a valid size", m.Raw)
	}
	for i, p := range m.Parts {
		if p.Bytes <= 0 || p.Bytes > partMax {
			return nil, fmt.Errorf("part %d has the invalid size of %d bytes", i, p.Bytes)
		}
	}
	if len(m.Parts) == 0 {
		m.Parts = nil
	}
	if len(m.Meta) > 0 {
		if err := m.Meta.Compact(); err != nil {
			return nil, err
		}
	}
	m.identify(data)
	return m, nil
}
