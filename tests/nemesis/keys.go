package nemesis

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"osqueue/tests/cluster"
	"osqueue/tests/cluster/store"
	"osqueue/tests/history"
)

// keyFaults replace the nodes' credentials.
var keyFaults = []Fault{
	{Name: "credentials-rotated", Elects: true, Needs: NeedProxy | NeedKeys, Begin: rotated},
}

// keys are the credentials file of all nodes.
type keys struct {
	t    *testing.T
	file string
	n    int // number of the present key
}

func newKeys(t *testing.T) *keys {
	k := &keys{t: t, file: filepath.Join(t.TempDir(), "credentials")}
	k.replace()
	return k
}

// env makes a process read its key from the file.
func (k *keys) env() []string {
	return []string{"AWS_SHARED_CREDENTIALS_FILE=" + k.file, "AWS_ACCESS_KEY_ID=", "AWS_SECRET_ACCESS_KEY="}
}

// names are those of all keys so far. The present one is last.
func (k *keys) names() (all []string) {
	for n := range k.n {
		all = append(all, fmt.Sprint("KEY", n+1))
	}
	return all
}

// replace writes another key to the file.
func (k *keys) replace() {
	k.t.Helper()
	k.n++
	text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = secret\n", k.names()[k.n-1])
	if err := errors.Join(os.WriteFile(k.file+".next", []byte(text), 0o600), os.Rename(k.file+".next", k.file)); err != nil {
		k.t.Fatal(err)
	}
}

// rotated replaces the key of all nodes. The signs are that the store has refused requests with the old
// one, and that the document is written with the new one.
func rotated(w *World, s *history.FaultSpan) func() {
	denied := w.Proxy.Hits()[store.Denied]
	w.Proxy.Revoke(w.keys.names()...) // a node that has not used the bucket since may have an older one
	w.keys.replace()
	before := 0
	w.Cluster.Eventually(cluster.LeaderTimeout, "a refused request", func() error {
		if w.Proxy.Hits()[store.Denied] == denied {
			return errors.New("no request had the old key")
		}
		before = len(w.Store.VersionTimes())
		return nil
	})
	w.Cluster.Eventually(cluster.LeaderTimeout, "a document that is written with the new key", func() error {
		if len(w.Store.VersionTimes()) == before {
			return errors.New("there is none")
		}
		return nil
	})
	s.Hit(fmt.Sprintf("%d requests with the old key", w.Proxy.Hits()[store.Denied]-denied))
	return func() {}
}
