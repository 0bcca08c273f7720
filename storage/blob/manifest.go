package blob

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Sum is a sha-256.
type Sum = [sha256.Size]byte

// Manifest describes a blob.
type Manifest struct {
	Key    string // of the manifest's own object
	Sum    Sum    // of the manifest's own object
	Raw    int64  // bytes of the stream
	RawSum Sum    // of the stream
	Stored int64  // bytes in the bucket, those of the manifest included
	Parts  []Part
	Meta   []byte // JSON of the writer's, without white space; nil: none
}

// Part describes one object of the stream.
type Part struct {
	Bytes int64
	Sum   Sum
}

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

// manifestJSON is a manifest as it stands in its object.
type manifestJSON struct {
	Format      string         `json:"format"`
	Version     int            `json:"version"`
	Compression string         `json:"compression"`
	Raw         int64          `json:"raw"`
	Sum         hexSum         `json:"sha256"`
	Parts       []partJSON     `json:"parts"`
	Meta        jsontext.Value `json:"meta,omitzero"`
}

type partJSON struct {
	Bytes int64  `json:"bytes"`
	Sum   hexSum `json:"sha256"`
}

type hexSum Sum

// MarshalText implements encoding.TextMarshaler.
func (s hexSum) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, s[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *hexSum) UnmarshalText(text []byte) error {
	sum, err := hex.DecodeString(string(text))
	if err != nil || len(sum) != len(s) {
		return fmt.Errorf("%q is not a SHA-256 in hex", text)
	}
	*s = hexSum(sum)
	return nil
}

// encode is the manifest's object. It sets what follows from that.
func (m *Manifest) encode() ([]byte, error) {
	j := manifestJSON{
		Format: format, Version: version, Compression: compression,
		Raw: m.Raw, Sum: hexSum(m.RawSum), Parts: make([]partJSON, len(m.Parts)), Meta: m.Meta,
	}
	for i, p := range m.Parts {
		j.Parts[i] = partJSON{Bytes: p.Bytes, Sum: hexSum(p.Sum)}
	}
	data, err := json.Marshal(&j, jsontext.WithIndent("  "), jsontext.PreserveRawStrings(true)) // the meta's are the caller's
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
	var j manifestJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return nil, err
	}
	switch {
	case j.Format != format:
		return nil, fmt.Errorf("the manifest has the format %q; expected %q", j.Format, format)
	case j.Version != version || j.Compression != compression:
		return nil, fmt.Errorf("the blob has version %d and compression %q; this release reads only version %d and %q: use the "+
			"release that wrote it",
			j.Version, j.Compression, version, compression)
	case j.Raw < 0:
		return nil, fmt.Errorf("the manifest names a stream of %d bytes, which is not a valid size", j.Raw)
	}
	m := &Manifest{Raw: j.Raw, RawSum: Sum(j.Sum)}
	for i, p := range j.Parts {
		if p.Bytes <= 0 || p.Bytes > partMax {
			return nil, fmt.Errorf("part %d has the invalid size of %d bytes", i, p.Bytes)
		}
		m.Parts = append(m.Parts, Part{Bytes: p.Bytes, Sum: Sum(p.Sum)})
	}
	if err := j.Meta.Compact(); err == nil && len(j.Meta) > 0 {
		m.Meta = j.Meta
	}
	m.identify(data)
	return m, nil
}
