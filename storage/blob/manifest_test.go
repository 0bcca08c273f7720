package blob

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"osqueue/storage/mem"
)

var update = flag.Bool("update", false, "write the golden files anew")

const goldenDir = "testdata/v1"

// goldenStream returns the content of the golden blob.
func goldenStream() []byte {
	var b bytes.Buffer
	for i := range 100 {
		fmt.Fprintf(&b, "job %d of queue %x\n", i, i*i*2654435761)
	}
	return b.Bytes()
}

// TestGolden reads a blob that was written once and is kept, and pins the form of
// manifests.
func TestGolden(t *testing.T) {
	b := mem.New()
	if *update {
		writeGolden(t)
	}
	files, err := os.ReadDir(goldenDir)
	if err != nil || len(files) < 3 {
		t.Fatalf("%d golden files (%v)", len(files), err)
	}
	for _, f := range files {
		b.PutIfAbsent(t.Context(), "golden/"+f.Name(), goldenFile(t, f.Name()))
	}
	r, err := Open(t.Context(), b, ManifestKey("golden"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, goldenStream()) {
		t.Fatalf("the golden blob is read as %q (%v)", got, err)
	}
	if again, err := r.Manifest().encode(); err != nil || !bytes.Equal(again, goldenFile(t, "manifest.json")) {
		t.Errorf("the manifest is now\n%s\n(%v)", again, err)
	}
}

func goldenFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(goldenDir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeGolden(t *testing.T) {
	t.Helper()
	b := mem.New()
	w := Create(t.Context(), b, "golden", 500)
	w.SetMeta([]byte(`{"lsn":"12-90210","node":"n1"}`))
	_, _ = w.Write(goldenStream())
	m, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{m.Key}
	for i := range m.Parts {
		keys = append(keys, partKey("golden", i))
	}
	for _, key := range keys {
		o, err := b.Get(t.Context(), key)
		if err == nil {
			err = os.WriteFile(filepath.Join(goldenDir, filepath.Base(key)), o.Data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestManifestErrors: a manifest that cannot be right is refused with the reason.
func TestManifestErrors(t *testing.T) {
	good := string(goldenFile(t, "manifest.json"))
	if _, err := decodeManifest([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, with, want string }{
		{good, "", "EOF"},
		{good, "null", "has the format"},
		{good, "[]", "array"},
		{`"osqueue blob"`, `"another"`, `the manifest has the format "another"`},
		{`"version": 1`, `"version": 2`, "use the release that wrote it"},
		{`"zstd"`, `"lz4"`, `compression "lz4"`},
		{`"raw": `, `"raw": -`, "names a stream of -"},
		{`"raw": `, `"raw": 1, "raw": `, "raw"},
		{`"sha256": "`, `"sha256": "0`, "not a SHA-256"},
		{`"sha256": "`, `"sha256": 5, "was": "`, "sha256"},
		{`"bytes": 500`, `"bytes": 0`, "part 0 has the invalid size of 0 bytes"},
		{`"bytes": 500`, `"bytes": -500`, "part 0 has the invalid size of -500 bytes"},
		{`"bytes": 500`, `"bytes": 300000000`, "part 0 has the invalid size of 300000000 bytes"},
		{`"bytes": 500`, `"bytes": 5e99`, "bytes"},
	} {
		text := strings.Replace(good, c.old, c.with, 1)
		if _, err := decodeManifest([]byte(text)); err == nil || text == good || !strings.Contains(err.Error(), c.want) {
			t.Errorf("with %s: %v, want %q", c.with, err, c.want)
		}
	}
	if m, err := decodeManifest([]byte(strings.Replace(good, `"raw"`, `"later": {}, "raw"`, 1))); err != nil || m.Raw == 0 {
		t.Errorf("with a member that is not known: %v", err)
	}
}

// TestLies reads blobs whose manifests say other things of the stream than it
// is: they are damaged, and do not end.
func TestLies(t *testing.T) {
	b := mem.New()
	w := Create(t.Context(), b, "x", 500)
	_, _ = w.Write(goldenStream())
	honest, err := w.Close()
	if err != nil {
		t.Fatal(err)
	}
	for name, lie := range map[string]func(m *Manifest){
		"shorter":     func(m *Manifest) { m.Raw-- },
		"longer":      func(m *Manifest) { m.Raw++ },
		"other sum":   func(m *Manifest) { m.RawSum[0]++ },
		"part less":   func(m *Manifest) { m.Parts = m.Parts[:len(m.Parts)-1] },
		"no part":     func(m *Manifest) { m.Parts = nil },
		"part twice":  func(m *Manifest) { m.Parts = append(m.Parts, m.Parts[0]) },
		"other parts": func(m *Manifest) { m.Parts = m.Parts[1:] },
	} {
		m := *honest
		m.Parts = append([]Part(nil), honest.Parts...)
		lie(&m)
		data, err := m.encode()
		if err != nil {
			t.Fatal(err)
		}
		_ = b.Delete(t.Context(), m.Key)
		b.PutIfAbsent(t.Context(), m.Key, data)
		r, err := Open(t.Context(), b, m.Key, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(r); !isDamaged(err) {
			t.Errorf("%s: %v", name, err)
		}
		r.Close()
	}
}

func isDamaged(err error) bool {
	return err != nil && strings.Contains(err.Error(), ErrDamaged.Error())
}

func FuzzManifest(f *testing.F) {
	good, err := os.ReadFile(filepath.Join(goldenDir, "manifest.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"format":"osqueue blob","version":1,"compression":"zstd","sha256":"` + strings.Repeat("0", 64) + `","meta":null}`))
	f.Add([]byte(`{"format":"osqueue blob","version":1,"compression":"zstd","raw":9223372036854775807,"sha256":"` +
		strings.Repeat("ab", 32) + `","parts":[{"bytes":1,"sha256":"` + strings.Repeat("AB", 32) + `"}],"meta":[1e400,"\ufffd"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		m, err := decodeManifest(data)
		if !bytes.Equal(data, before) {
			t.Fatal("decodeManifest wrote to its input")
		}
		if err != nil {
			return
		}
		first, err := m.encode()
		if err != nil {
			t.Fatalf("%+v: %v", m, err)
		}
		again, err := decodeManifest(first)
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("%+v came back as %+v (%v)", m, again, err)
		}
	})
}
