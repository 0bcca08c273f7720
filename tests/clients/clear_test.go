package clients

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The clients send an access token without TLS to loopback addresses only, or if the server says http://.
// The test of the Go client is in package client.
func TestTokenInClear(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		cmd := exec.CommandContext(t.Context(), l.interpreter, "clear"+l.extension,
			"10.0.0.1:8080", "node1", "127.0.0.1.example:8080", "127.0.0.1:8080", "localhost", "[::1]:8080", "http://10.0.0.1:8080", "https://node1")
		cmd.Dir = l.desk(t)
		cmd.Env = append(os.Environ(), "OSQUEUE_CA=", "OSQUEUE_CONTEXT=", "XDG_CONFIG_HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if got := strings.Join(strings.Fields(string(out)), " "); err != nil || got != "no no no yes yes yes yes yes" {
			t.Errorf("%s, %v", out, err)
		}
	})
}
