package membership

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// An identity that cannot be parsed is reported as damaged, not as that of another node.
func TestDamagedIdentity(t *testing.T) {
	for _, text := range []string{"", "\n", "n1", "n1~", "~5f0c", "n1~5f\n0c"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, instanceFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadID(dir, "n1", func(raft.ServerID) error { return nil }); err == nil || !strings.Contains(err.Error(), "is damaged") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
