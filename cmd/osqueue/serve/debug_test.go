package serve

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// The settings have the values in force, and no secret of the bucket's URL.
func TestSettingsAreShownWithoutSecrets(t *testing.T) {
	o := newOptions()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	o.bind(flags)
	check(t, flags.Parse([]string{"--bucket", "s3://u:hidden@b/p?region=eu&secret_key=hidden", "--max-jobs", "7"}))
	w := httptest.NewRecorder()
	o.showSettings(w, nil)
	text := w.Body.String()
	for _, want := range []string{"max-jobs: \"7\"\n", "bucket: s3://u:xxxxx@b/p?region=eu&secret_key=", "raft-addr: 127.0.0.1:7080\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
	if strings.Contains(text, "hidden") {
		t.Errorf("a secret is shown:\n%s", text)
	}
}

// The newest whole lines are kept, in bounded memory.
func TestEndOfTheLogIsKept(t *testing.T) {
	var l recentLog
	const lines = 40_000
	for i := range lines {
		_, _ = fmt.Fprintf(&l, "line %d of the log\n", i)
		if len(l.text) > 2*recentBytes {
			t.Fatalf("%d bytes are kept", len(l.text))
		}
	}
	w := httptest.NewRecorder()
	l.serve(w, nil)
	text := w.Body.String()
	if !strings.HasPrefix(text, "line ") || !strings.HasSuffix(text, fmt.Sprintf("line %d of the log\n", lines-1)) || len(text) < recentBytes-100 || len(text) > recentBytes {
		t.Errorf("%d bytes: %.40q", len(text), text)
	}
	if n, err := l.Write(make([]byte, 5*recentBytes)); n != 5*recentBytes || err != nil || len(l.text) > 2*recentBytes {
		t.Errorf("a long line: %d %v, %d kept", n, err, len(l.text))
	}
}
