package admin

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var osq = clitest.Tree(Commands)

// A context is added, listed, used by another command, and deleted. Its token is never shown.
func TestContexts(t *testing.T) {
	q := clitest.NewFake(t)
	home := t.TempDir()
	run := func(args ...string) clitest.Result {
		c := clitest.Tree(Commands).Command(t)
		c.Env = map[string]string{"XDG_CONFIG_HOME": home, "OSQUEUE_TOKEN": ""}
		return c.Run(args...)
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("osq_theid_thesecret_00000000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]string{
		{"context", "add", "test", "--servers", q.Server.URL, "--token-file", token},
		{"context", "add", "other", "--servers", "127.0.0.1:1"},
		{"status"}, // by the current context, the first one
		{"context", "use", "other"},
		{"status", "--context", "test"},
	} {
		if got := run(line...); got.Code != view.ExitOK {
			t.Fatalf("%v: %+v", line, got)
		}
	}
	if got := run("status", "--timeout", "100ms"); got.Code != view.ExitFailure || !strings.Contains(got.Out, "127.0.0.1:1") {
		t.Errorf("the current context: %+v", got)
	}
	if got := run("status", "--timeout", "100ms"); !strings.Contains(got.Err, "or choose another context with --context or osqueue context use: test\n") {
		t.Errorf("the other contexts are not named: %s", got.Err)
	}
	for _, line := range []string{"context ls", "context show test", "context ls --json", "context show test --json"} {
		got := run(strings.Fields(line)...)
		if got.Code != view.ExitOK || !strings.Contains(got.Out, "theid") || strings.Contains(got.Out, "thesecret") {
			t.Errorf("%s: %+v", line, got)
		}
	}
	if got := run("context", "rm", "other"); got.Code != view.ExitOK {
		t.Errorf("%+v", got)
	}
	for _, line := range []string{"context use other", "context show", "context rm other", "status --context other", "context add ../x --servers a", "context add x"} {
		if got := run(strings.Fields(line)...); got.Code == view.ExitOK {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// A token that all users may read is used, with a warning.
func TestTokenFileOfAllUsers(t *testing.T) {
	q := clitest.NewFake(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("osq_theid_thesecret_00000000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true, 0o602: true} {
		if err := os.Chmod(token, mode); err != nil {
			t.Fatal(err)
		}
		got := clitest.Tree(Commands).Command(t).Run("status", "--servers", q.Server.URL, "--token-file", token)
		if got.Code != view.ExitOK || strings.Contains(got.Err, "chmod 600") != warned {
			t.Errorf("%o: %+v", mode, got)
		}
	}
}

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
		got := osq.Command(t, node.URL).Run("ui", "--address", address)
		if got.Code != view.ExitOK || got.Out != want+"/ui/login?code=c\n" {
			t.Errorf("%q: %+v", address, got)
		}
	}
	if got := osq.Command(t, node.URL, "127.0.0.1:1").Run("ui", "--address", "a:1"); got.Code != view.ExitUsage {
		t.Errorf("two servers: %+v", got)
	}
}
