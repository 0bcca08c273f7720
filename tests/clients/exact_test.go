package clients

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	v1 "osqueue/client/api/v1"
)

// answering serves a node that is in the given state and answers every other call with a text.
func answering(t *testing.T, status *v1.Status, text string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == v1.PathStatus {
			_ = json.MarshalWrite(w, status)
			return
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	return s
}

func environment(t *testing.T, servers string) []string {
	t.Helper()
	return append(os.Environ(), "OSQUEUE_CA=", "OSQUEUE_TOKEN=", "OSQUEUE_CONTEXT=", "XDG_CONFIG_HOME="+t.TempDir(), "OSQUEUE_SERVERS="+servers)
}

// Numbers of payloads and results can be read without loss: large integers, and floats with more digits.
func TestExactNumbers(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		s := answering(t, &v1.Status{State: v1.StateLeader, Term: 1},
			`{"id":"x","status":"completed","result":[0.1000000000000000055,9007199254740993,0.25,"\\\"1e400"]}`)
		cmd := exec.CommandContext(t.Context(), l.interpreter, "exact"+l.extension, "x")
		cmd.Dir, cmd.Env = l.desk(t), environment(t, s.URL)
		out, err := cmd.CombinedOutput()
		if want := "0.1\n0.1000000000000000055 9007199254740993 0.25 \\\"1e400\n"; err != nil || string(out) != want {
			t.Errorf("%q, %v; want %q", out, err, want)
		}
	})
}

// A client that was started with one address finds the leader among the members when that address is gone.
func TestClientsLearnMembers(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		const done = `{"jobId":"j","status":"completed"}`
		second := answering(t, &v1.Status{State: v1.StateLeader, Term: 2}, done)
		first := answering(t, &v1.Status{State: v1.StateLeader, Term: 1, Peers: []v1.Peer{
			{HTTPAddress: "n9.example.test:8080"}, {}, {HTTPAddress: strings.TrimPrefix(second.URL, "http://")},
		}}, done)
		cmd := exec.CommandContext(t.Context(), l.interpreter, "members"+l.extension)
		cmd.Dir, cmd.Env = l.desk(t), environment(t, first.URL)
		var failed strings.Builder
		cmd.Stderr = &failed
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 2 {
			if _, err := io.WriteString(in, "x\n"); err != nil {
				t.Fatal(err)
			}
			if !lines.Scan() || lines.Text() != "j" {
				t.Fatalf("%q: %s", lines.Text(), failed.String())
			}
			first.CloseClientConnections()
			first.Listener.Close()
		}
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
}
