package raftlog

import "testing"

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
