package admin

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"osqueue/cmd/osqueue/view"
)

// A link shows the address by which the browser reaches the node, which may be another one than
// that of the command.
func TestAddressOfTheLink(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"path":"/ui/login?code=c"}`)
	}))
	defer node.Close()
	for address, want := range map[string]string{
		"":                       node.URL,
		"127.0.0.1:24130":        "http://127.0.0.1:24130",
		"https://jobs.test:443/": "https://jobs.test:443",
	} {
		got := newTestCommand(t, node.URL).Run("ui", "--address", address)
		if got.Code != view.ExitOK || got.Out != want+"/ui/login?code=c\n" {
			t.Errorf("%q: %+v", address, got)
		}
	}
	if got := newTestCommand(t, node.URL, "127.0.0.1:1").Run("ui", "--address", "a:1"); got.Code != view.ExitUsage {
		t.Errorf("two servers: %+v", got)
	}
}
