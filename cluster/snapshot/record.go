package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"

	"github.com/hashicorp/raft"
)

// ErrDamaged is wrapped by errors about a snapshot with unexpected content.
var ErrDamaged = errors.New("the snapshot is damaged")

// errNewer is wrapped by errors about a snapshot of a newer program.
var errNewer = errors.New("a newer release wrote the snapshot: start that release")

// recordFormat is the version of record. decodeRecord refuses a newer version.
const recordFormat = 1

// record describes a snapshot: raft's own description, and the checksum of its bytes.
type record struct {
	Format             int            `json:"format"`
	Term               uint64         `json:"term"`
	Index              uint64         `json:"index"`
	ConfigurationIndex uint64         `json:"configurationIndex"`
	Servers            []serverRecord `json:"servers"`
	Size               int64          `json:"size"` // bytes
	Sum                string         `json:"sha256"`
	Check              string         `json:"check"` // SHA-256 of the record without this field
}

type serverRecord struct {
	ID       string `json:"id"`
	Address  string `json:"address"`
	Suffrage string `json:"suffrage"`
}

// newRecord describes a snapshot with known bytes.
func newRecord(m *raft.SnapshotMeta, size int64, sum [sha256.Size]byte) record {
	r := record{
		Format:             recordFormat,
		Term:               m.Term,
		Index:              m.Index,
		ConfigurationIndex: m.ConfigurationIndex,
		Servers:            make([]serverRecord, 0, len(m.Configuration.Servers)),
		Size:               size,
		Sum:                hex.EncodeToString(sum[:]),
	}
	for _, s := range m.Configuration.Servers {
		r.Servers = append(r.Servers, serverRecord{string(s.ID), string(s.Address), s.Suffrage.String()})
	}
	return r
}

// encode computes the check and returns the record as JSON.
func (r *record) encode() []byte {
	r.Check = r.check()
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		panic(err) // cannot happen: strings and numbers only
	}
	return append(data, '\n')
}

// check returns the checksum of the record, which is that of its compact form.
func (r *record) check() string {
	bare := *r
	bare.Check = ""
	data, err := json.Marshal(bare)
	if err != nil {
		panic(err) // cannot happen: strings and numbers only
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// decodeRecord parses and checks a record. Its errors wrap ErrDamaged, or errNewer for the
// record of a newer program.
func decodeRecord(data []byte) (*record, error) {
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%w: the description cannot be read: %w", ErrDamaged, err)
	}
	if r.Format > recordFormat {
		return nil, fmt.Errorf("%w (its format is %d, this one knows %d)", errNewer, r.Format, recordFormat)
	}
	if why := r.fault(); why != "" {
		return nil, fmt.Errorf("%w: the description %s", ErrDamaged, why)
	}
	return &r, nil
}

func (r *record) fault() string {
	sum, err := hex.DecodeString(r.Sum)
	switch {
	case r.Format != recordFormat:
		return fmt.Sprintf("has format %d", r.Format)
	case r.Check != r.check():
		return "has a checksum mismatch"
	case r.Term == 0 || r.Index == 0:
		return "has no term or index"
	case r.ConfigurationIndex > r.Index:
		return fmt.Sprintf("has the configuration of entry %d, which is after entry %d", r.ConfigurationIndex, r.Index)
	case r.Size < 0:
		return "has a negative size"
	case err != nil || len(sum) != sha256.Size:
		return "has no valid SHA-256"
	}
	seen := make(map[string]bool)
	for _, s := range r.Servers {
		if !isSuffrage(s.Suffrage) || s.ID == "" || seen[s.ID] {
			return fmt.Sprintf("has the invalid server %q", s.ID)
		}
		seen[s.ID] = true
	}
	return ""
}

func isSuffrage(name string) bool {
	return name == raft.Voter.String() || name == raft.Nonvoter.String() || name == raft.Staging.String()
}

// sum returns the SHA-256 in a record that decodeRecord has accepted.
func (r *record) sum() (sum [sha256.Size]byte) {
	data, _ := hex.DecodeString(r.Sum)
	copy(sum[:], data)
	return sum
}

// describes reports whether the record and raft's own description m describe the same
// snapshot: two copies that agree are not both damaged.
func (r *record) describes(m *raft.SnapshotMeta) bool {
	same := newRecord(m, m.Size, r.sum())
	return r.Size == same.Size && r.Term == same.Term && r.Index == same.Index &&
		r.ConfigurationIndex == same.ConfigurationIndex && slices.Equal(r.Servers, same.Servers)
}

// checkedReader returns the bytes of a snapshot, but the last of them only if the checksum
// of all bytes matches. A decoder that stops at its own end mark has also read verified
// bytes.
type checkedReader struct {
	io.Closer
	r    io.Reader
	sum  hash.Hash
	want [sha256.Size]byte
	left int64
	err  error
	bad  func(error) // called once if the snapshot is damaged; may be nil
}

func newCheckedReader(rc io.ReadCloser, r *record, bad func(error)) *checkedReader {
	return &checkedReader{Closer: rc, r: rc, sum: sha256.New(), want: r.sum(), left: r.Size, bad: bad}
}

// Read implements io.Reader.
func (c *checkedReader) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	var n int
	if c.left > 0 {
		var err error
		n, err = c.r.Read(p)
		c.left -= int64(n)
		c.sum.Write(p[:n])
		if c.left > 0 {
			return n, c.short(err)
		}
	}
	if [sha256.Size]byte(c.sum.Sum(nil)) != c.want {
		return 0, c.fail(fmt.Errorf("%w: checksum mismatch", ErrDamaged))
	}
	c.err = io.EOF
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// short returns the error of a read after which bytes are still missing.
func (c *checkedReader) short(err error) error {
	if err == io.EOF { //nolint:errorlint // a reader returns it bare
		return c.fail(fmt.Errorf("%w: %d bytes are missing at its end", ErrDamaged, c.left))
	}
	if err != nil {
		c.err = err
	}
	return err
}

func (c *checkedReader) fail(err error) error {
	c.err = err
	if c.bad != nil {
		c.bad(err)
	}
	return err
}
