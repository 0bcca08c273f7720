package inbox

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-hclog"

	"osqueue/storage"
)

func TestIDs(t *testing.T) {
	for key, want := range map[string]string{
		"inbox/a.json": "a", "inbox/0190a8c2-7f.json": "0190a8c2-7f", "inbox/a.json.json": "a.json", "inbox/rejected.json": "rejected",
		"inbox/a@b:c,d=e+f~g.json": "a@b:c,d=e+f~g",
	} {
		if got, ok := idOf(key); !ok || got != want {
			t.Errorf("%q is the job %q, %v; want %q", key, got, ok, want)
		}
	}
	for _, key := range []string{
		"", "inbox/", "inbox/.json", "inbox/a", "inbox/a.JSON", "inbox/a/b.json", "inbox/rejected/a.json", "queue.json", "inbox/a b.json",
		"Inbox/a.json", "inbox//a.json", "inbox/ä.json", "inbox/.a.json",
	} {
		if id, ok := idOf(key); ok {
			t.Errorf("%q is the job %q", key, id)
		}
	}
}

// FuzzNames checks that an id maps to one key and back, and that the names of rejected
// files are valid keys that differ from those of other files and reasons.
func FuzzNames(f *testing.F) {
	f.Add("a", "b", []byte("{"))
	f.Add("x.reason", "x", []byte(""))
	f.Add(strings.Repeat("x", 195), strings.Repeat("x", 194), []byte("[]"))
	f.Add("a/b", "rejected/a", []byte("x"))
	f.Add(".", "a~0011223344556677", []byte("x"))
	f.Fuzz(func(t *testing.T, id, id2 string, data []byte) {
		key, err := Key(id)
		if err != nil {
			if got, ok := idOf(Prefix + id + suffix); ok {
				t.Fatalf("%q is refused, and read as %q", id, got)
			}
			return
		}
		if got, ok := idOf(key); !ok || got != id {
			t.Fatalf("%q has the key %q, which is %q", id, key, got)
		}
		_, err2 := Key(id2)
		for _, other := range []bool{false, true} {
			stem := rejectedStem(id, data, other)
			for _, end := range []string{suffix, reasonSuffix} {
				if err := storage.ValidateKey(RejectedPrefix + stem + end); err != nil || strings.HasPrefix(RejectedPrefix+stem+end, Prefix) {
					t.Fatalf("%q is rejected as %q: %v", id, stem, err)
				}
			}
			if err2 == nil && id2 != id && rejectedStem(id2, data, other)+suffix == stem+reasonSuffix {
				t.Fatalf("%q is rejected under the name of the reason of %q", id2, id)
			}
		}
		if more := append(bytes.Clone(data), 0); rejectedStem(id, data, true) == rejectedStem(id, more, true) {
			t.Fatalf("%q has the same name for other bytes", id)
		}
	})
}

// lines is the output of a log.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) logger() hclog.Logger { return hclog.New(&hclog.LoggerOptions{Output: l}) }

// count returns how often the text was logged.
func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}
