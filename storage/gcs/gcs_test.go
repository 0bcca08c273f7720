package gcs

import (
	"net/url"
	"testing"

	"go.uber.org/goleak"

	"osqueue/internal/storagetest"
	"osqueue/storage"
)

// TestMain knows of a goroutine that a library of the client starts on import.
func TestMain(m *testing.M) {
	storagetest.MostlyWaits()
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

func openURL(t *testing.T, raw string) *Bucket {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestVersions(t *testing.T) {
	for _, v := range []storage.Version{"", "0", "-1", "+1", "01", "1.0", "x", "99999999999999999999", "*", " 1"} {
		if g, ok := parseVersion(v); ok {
			t.Errorf("%q is taken for generation %d", v, g)
		}
	}
	if g, ok := parseVersion(formatVersion(1706000000000001)); !ok || g != 1706000000000001 {
		t.Errorf("a generation came back as %d, %v", g, ok)
	}
}
