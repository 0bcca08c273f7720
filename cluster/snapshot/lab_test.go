package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newStore(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := New(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var threeServers = raft.Configuration{Servers: []raft.Server{
	{Suffrage: raft.Voter, ID: "n1~0a", Address: "10.0.0.1:7080"},
	{Suffrage: raft.Voter, ID: "n2~0b", Address: "10.0.0.2:7080"},
	{Suffrage: raft.Nonvoter, ID: "n3~0c", Address: "10.0.0.3:7080"},
}}

// begin starts a snapshot with three servers.
func begin(t testing.TB, s *Store, term, index uint64) raft.SnapshotSink {
	t.Helper()
	sink, err := s.Create(1, index, term, threeServers, min(index, 3), addresses{})
	if err != nil {
		t.Fatal(err)
	}
	return sink
}

// take writes a snapshot with the content of its index.
func take(t testing.TB, s *Store, term, index uint64) (id string) {
	t.Helper()
	sink := begin(t, s, term, index)
	if _, err := sink.Write(content(index)); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	return sink.ID()
}

// content returns the content of a snapshot at an index: the same on every node, of varying
// length, incompressible.
func content(index uint64) []byte {
	r := rand.NewChaCha8([32]byte{byte(index), byte(index >> 8)})
	data := make([]byte, 10_000+index%1000)
	_, _ = r.Read(data)
	return data
}

// read opens a snapshot and reads it to the end.
func read(s *Store, id string) (*raft.SnapshotMeta, []byte, error) {
	m, rc, err := s.Open(id)
	if err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(rc)
	return m, data, errors.Join(err, rc.Close())
}

func wantRead(t *testing.T, s *Store, id string, index uint64) {
	t.Helper()
	m, data, err := read(s, id)
	if err != nil {
		t.Fatalf("open %s: %v", id, err)
	}
	if m.Index != index || m.ID != id || !bytes.Equal(data, content(index)) {
		t.Fatalf("open %s gives id %s, index %d and %d bytes", id, m.ID, m.Index, len(data))
	}
	if fmt.Sprint(m.Configuration) != fmt.Sprint(threeServers) || m.ConfigurationIndex != min(index, 3) || m.Size != int64(len(data)) {
		t.Fatalf("open %s describes it as %+v", id, m)
	}
}

func ids(t *testing.T, s *Store) (ids []string) {
	t.Helper()
	metas, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range metas {
		ids = append(ids, m.ID)
	}
	return ids
}

func wantIDs(t *testing.T, s *Store, want ...string) {
	t.Helper()
	if got := ids(t, s); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("the snapshots are %v, want %v", got, want)
	}
}

// flip changes one bit in the middle of a file.
func flip(t testing.TB, path ...string) {
	t.Helper()
	name := filepath.Join(path...)
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 0x10
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func dirNames(t testing.TB, path ...string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(path...))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
