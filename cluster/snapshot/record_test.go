package snapshot

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
)

func testMeta() *raft.SnapshotMeta {
	return &raft.SnapshotMeta{Version: 1, Term: 7, Index: 1200, Configuration: threeServers, ConfigurationIndex: 3, Size: 5}
}

// TestRecordIsStable compares with a file that must stay readable.
func TestRecordIsStable(t *testing.T) {
	r := newRecord(testMeta(), 5, sha256.Sum256([]byte("hello")))
	want, err := os.ReadFile(filepath.Join("testdata", "record1.json"))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.encode(); !bytes.Equal(got, want) {
		t.Fatalf("the record has become\n%s", got)
	}
	back, err := decodeRecord(want)
	if err != nil {
		t.Fatal(err)
	}
	if !back.describes(testMeta()) || back.sum() != sha256.Sum256([]byte("hello")) {
		t.Errorf("it is read as %+v", back)
	}
}

func TestRecordNoticesWhatCannotBe(t *testing.T) {
	for name, change := range map[string]func(*record){
		"format":              func(r *record) { r.Format = 0 },
		"term":                func(r *record) { r.Term = 0 },
		"index":               func(r *record) { r.Index = 0 },
		"configuration index": func(r *record) { r.ConfigurationIndex = 1201 },
		"size":                func(r *record) { r.Size = -5 },
		"short sum":           func(r *record) { r.Sum = r.Sum[2:] },
		"no sum":              func(r *record) { r.Sum = "zz" + r.Sum[2:] },
		"suffrage":            func(r *record) { r.Servers[0].Suffrage = "nobody" },
		"twice":               func(r *record) { r.Servers[0].ID = r.Servers[1].ID },
		"no id":               func(r *record) { r.Servers[0].ID = "" },
	} {
		r := newRecord(testMeta(), 5, sha256.Sum256(nil))
		change(&r)
		if _, err := decodeRecord(r.encode()); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := newRecord(testMeta(), 5, sha256.Sum256(nil))
	r.Format = 2
	if _, err := decodeRecord(r.encode()); !errors.Is(err, errNewer) || errors.Is(err, ErrDamaged) {
		t.Errorf("of a newer program: %v", err)
	}
}

// TestRecordNoticesEveryFlip changes each byte, including the names of fields.
func TestRecordNoticesEveryFlip(t *testing.T) {
	r := newRecord(testMeta(), 5, sha256.Sum256(nil))
	good := r.encode()
	for i := range good {
		for _, bit := range []byte{1, 16, 32} { // 32 changes the case of a letter
			bad := bytes.Clone(good)
			bad[i] ^= bit
			got, err := decodeRecord(bad)
			if err == nil && !bytes.Equal(got.encode(), good) {
				t.Fatalf("byte %d of\n%s\nis not missed", i, bad)
			}
		}
	}
}

func FuzzDecodeRecord(f *testing.F) {
	r := newRecord(testMeta(), 5, sha256.Sum256(nil))
	f.Add(r.encode())
	f.Add([]byte(`{"format":1,"term":1,"index":1,"size":0,"sha256":""}`))
	f.Add([]byte(`{"format":1,"servers":[{"id":"a","suffrage":"Voter"}]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decodeRecord(data)
		if err != nil {
			return
		}
		again, err := decodeRecord(r.encode())
		if err != nil {
			t.Fatalf("%s is refused: %v", r.encode(), err)
		}
		if !bytes.Equal(again.encode(), r.encode()) {
			t.Fatalf("%+v comes back as %+v", r, again)
		}
	})
}
