package membership

import (
	"strings"
	"testing"
)

// FuzzIdentity parses any content of an instance file. An accepted id is unchanged in the
// file that NewID would write, and has a valid name and an instance.
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
		if NodeName(id) != name || !namePattern.MatchString(name) || instance == "" {
			t.Fatalf("%q is read as the server id %q", data, id)
		}
	})
}
