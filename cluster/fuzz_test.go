package cluster

import (
	"strings"
	"testing"
)

// FuzzWitness decodes any content of a witness file. A decoded witness is unchanged after
// encoding and decoding, and a truncated file is refused: it could claim less than the
// log must have.
func FuzzWitness(f *testing.F) {
	f.Add([]byte(`{"server":"n1~5f0c2a9b77d1e364","term":7,"voteTerm":7,"index":90210}` + "\n"))
	f.Add([]byte(`{"server":"n1~5f0c2a9b77d1e364","term":0,"voteTerm":0,"index":0}` + "\n"))
	f.Add([]byte(`{"Server":"\ud800","term":18446744073709551615,"term":1,"later":[{}]}`))
	f.Add([]byte(`{"term":-1}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := decodeWitness(data)
		if err != nil {
			return
		}
		if len(w.Server) > 3*len(data) { // each invalid byte becomes three
			t.Fatalf("%d bytes became a server id of %d", len(data), len(w.Server))
		}
		file, err := w.encode()
		if err != nil {
			t.Fatalf("%+v: %v", w, err)
		}
		if again, err := decodeWitness(file); err != nil || again != w {
			t.Fatalf("%+v came back as %+v (%v)", w, again, err)
		}
		for cut := range len(file) - 1 { // without the line end the file is complete
			if w, err := decodeWitness(file[:cut]); err == nil {
				t.Fatalf("%q is accepted as %+v", file[:cut], w)
			}
		}
	})
}

// FuzzIdentity parses any content of an instance file. An accepted id is unchanged in the
// file that newInstance would write, and has a valid name and an instance.
func FuzzIdentity(f *testing.F) {
	f.Add([]byte("n1~5f0c2a9b77d1e364\n"))
	f.Add([]byte("n1~5f0c2a9b77d1e364"))
	for _, text := range []string{"", "n1", "n1~", "~5f0c", "n1~5f\n0c", "n1~5f~0c", "n1~\x00", "\xff~5f"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		id, ok := parseIdentity(data)
		if !ok {
			return
		}
		if again, ok := parseIdentity([]byte(string(id) + "\n")); !ok || again != id {
			t.Fatalf("%q comes back as %q, %v", id, again, ok)
		}
		name, instance, _ := strings.Cut(string(id), "~")
		if nodeName(id) != name || !namePattern.MatchString(name) || instance == "" || serverID(name, instance) != id {
			t.Fatalf("%q is read as the server id %q", data, id)
		}
		if _, err := (witnessed{Server: id}).encode(); err != nil {
			t.Fatal(err)
		}
	})
}
