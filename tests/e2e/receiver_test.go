package e2e

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"osqueue/client/webhook"
)

// The receiver of docs/monitoring takes signed deliveries once, and refuses all others.
func TestReceiverOfTheDocs(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 in PATH")
	}
	secret := webhook.NewSecret()
	cmd := exec.CommandContext(t.Context(), python, "../../docs/monitoring/receiver.py", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), "HOOK_SECRET="+secret.Text())
	stderr, err := cmd.StderrPipe()
	check(t, err)
	var printed strings.Builder
	cmd.Stdout = &printed
	check(t, cmd.Start())
	line, err := bufio.NewReader(stderr).ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		t.Fatalf("%q, %v", line, err)
	}
	const body = `{"type":"queue.stuck","data":{"subject":"mail","state":"firing"}}`
	now := time.Now()
	for _, c := range []struct {
		id   string
		key  webhook.Secret
		at   time.Time
		want int
	}{
		{"evt_1", secret, now, http.StatusNoContent},
		{"evt_1", secret, now.Add(time.Second), http.StatusNoContent},
		{"evt_2", webhook.NewSecret(), now, http.StatusUnauthorized},
		{"evt_3", secret, now.Add(-time.Hour), http.StatusUnauthorized},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address, strings.NewReader(body))
		check(t, err)
		r.Header.Set("Webhook-Id", c.id)
		r.Header.Set("Webhook-Timestamp", strconv.FormatInt(c.at.Unix(), 10))
		r.Header.Set("Webhook-Signature", c.key.Sign(c.id, c.at, []byte(body)))
		r.Close = true
		res, err := http.DefaultClient.Do(r)
		check(t, err)
		_ = res.Body.Close()
		if res.StatusCode != c.want {
			t.Errorf("%s: status %d, want %d", c.id, res.StatusCode, c.want)
		}
	}
	check(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if got := printed.String(); got != "queue.stuck firing mail\n" {
		t.Errorf("it printed %q", got)
	}
}
