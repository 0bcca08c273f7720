package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth/certs"
	"osqueue/tests/cluster"
)

// reloadTime is within which a node has read changed files.
const reloadTime = 20 * time.Second

// A running node applies what can change, at SIGHUP and when a file changes, says what needs a restart, and keeps what it has if
// a file is wrong.
func TestSettingsAreReadAgain(t *testing.T) {
	t.Parallel()
	p := newIssuer(t)
	dir := t.TempDir()
	config, roles := filepath.Join(dir, "osqueue.yaml"), filepath.Join(dir, "roles.yaml")
	write := func(path, text string) {
		t.Helper()
		check(t, os.WriteFile(path, []byte(text), 0o600))
	}
	const first = "roles-file: roles.yaml\nmax-jobs: 100\noidc-issuer: %s\noidc-audience: queue\nlog-level: info\n"
	write(roles, `[{from: oidc, match: {groups: builders}, role: producer}]`)
	write(config, fmt.Sprintf(first, p.server.URL))
	c := cluster.Start(t, cluster.Options{TLS: true, Flags: []string{"--config", config, "--max-attempts", "4"}})
	hangup := func() {
		t.Helper()
		for _, n := range c.Nodes {
			check(t, syscall.Kill(n.Pid(), syscall.SIGHUP))
		}
	}
	logged := func(what string) {
		t.Helper()
		for _, n := range c.Nodes {
			c.Eventually(reloadTime, n.Name+" logs "+what, func() error {
				_, _ = n.Status() // which the level debug logs
				if !strings.Contains(n.Log(), what) {
					return errors.New("it does not")
				}
				return nil
			})
		}
	}
	ctx := c.Context(longPatience)
	admin, jwt := withToken(t, c, c.Token()), withToken(t, c, p.token(t, p.key, "builders", time.Hour))
	enqueue := func(q *client.Client) error {
		_, err := q.Enqueue(ctx, client.NewJob{Type: "a"})
		return err
	}
	check(t, enqueue(jwt))

	// The rules change without a signal.
	write(roles, `[{from: oidc, match: {groups: builders}, role: reader}]`)
	c.Eventually(reloadTime, "the changed rules", func() error {
		if err := enqueue(jwt); !client.HasTag(err, v1.TagForbidden) {
			return fmt.Errorf("enqueue: %w", err)
		}
		return nil
	})

	// Limits of the queue and the level of the log change, flags come first, and the port needs a restart.
	write(config, strings.NewReplacer("max-jobs: 100", "max-jobs: 1", "info", "debug").Replace(fmt.Sprintf(first, p.server.URL))+"max-attempts: 9\nmax-connections: 77\n")
	hangup()
	logged(`changed="max-jobs log-level"`)
	logged("need a restart of this node: settings=max-connections")
	logged("[DEBUG]")
	c.Eventually(reloadTime, "the smaller quota", func() error {
		if err := enqueue(admin); !client.HasTag(err, v1.TagTooManyJobs) {
			return fmt.Errorf("enqueue: %w", err)
		}
		return nil
	})

	// A mistake changes nothing.
	write(config, fmt.Sprintf(first, p.server.URL)+"max-job: 7\n")
	hangup()
	logged("the settings cannot be read again; those in force stay")
	logged("did you mean max-jobs?")
	if err := enqueue(admin); !client.HasTag(err, v1.TagTooManyJobs) {
		t.Errorf("after a mistake: %v", err)
	}

	// The next leader has the same limits.
	old := c.WaitLeader()
	check(t, old.Stop())
	c.WaitOtherLeader(old)
	if err := enqueue(admin); !client.HasTag(err, v1.TagTooManyJobs) {
		t.Errorf("at the next leader: %v", err)
	}
}

const settingsFile = `
queues:
  "": {maxAttempts: 7}
  mail: {maxRunning: 5, ratePerSecond: 2.5, burst: 3, backoff: {kind: exponential, baseMs: 1000, capMs: 60000, jitter: 10}, retainMs: 0, retainDeadCount: 9}
  film.hd: {paused: true, timeoutMs: 5000}
limits:
  "customer:*": {maxRunning: 2}
  "customer:7": {}
  openai: {ratePerSecond: 0.5}
hooks:
  ops: {url: "https://example.com/x", "on": [job.dead, "queue.*"], types: ["mail.*"], oldestAgeMs: 5000, paused: true}
crons:
  nightly:
    spec: 0 3 * * *
    timeZone: Europe/Berlin
    overlap: allow
    missed: all
    job:
      type: report
      payload: {days: 1, big: 12345678901234567890, text: "5", list: [1, null, true], nothing: {}}
      tags: [a, b]
      headers: {x: "1"}
      uniqueFields: [days]
      onError: [{class: smtp, action: retry, delayMs: 5}]
      backoff: {kind: fixed, baseMs: 7}
      maxAttempts: 2
tokens:
  - {name: ci, role: producer, types: ["ci.*"], ratePerSecond: 1.5, burst: 10, maxJobs: 5}
  - {name: shop, role: producer, types: [a], tenant: acme}
`

// Export writes what apply has made: applied again it changes nothing, and on an empty cluster it makes the same.
func TestApplyAndExport(t *testing.T) {
	t.Parallel()
	one := cluster.Start(t, cluster.Options{TLS: true, Nodes: 1})
	dir := t.TempDir()
	path := filepath.Join(dir, "queue.yaml")
	write := func(text string) {
		t.Helper()
		check(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write(settingsFile)
	keys := filepath.Join(dir, "keys")
	if out, code := osqueue(t, one, "apply", "-f", path, "--dry-run"); code != 1 || strings.Count(out, "+ ") != 10 {
		t.Errorf("the first dry run: %d\n%s", code, out)
	}
	if out, code := osqueue(t, one, "apply", "-f", path, "--secrets", keys); code != 0 {
		t.Fatalf("apply: %d\n%s", code, out)
	}
	same := func(c *cluster.Cluster) {
		t.Helper()
		if out, code := osqueue(t, c, "apply", "-f", path, "--dry-run"); code != 0 || out != "" {
			t.Errorf("a dry run after apply: %d\n%s", code, out)
		}
	}
	same(one)
	exported, code := osqueue(t, one, "export")
	if code != 0 || !strings.Contains(exported, "big: 12345678901234567890") || strings.Contains(exported, "osq_") || strings.Contains(exported, "whsec") {
		t.Errorf("export: %d\n%s", code, exported)
	}
	write(exported)
	same(one)

	two := cluster.Start(t, cluster.Options{TLS: true, Nodes: 1})
	if out, code := osqueue(t, two, "apply", "-f", path, "--secrets", filepath.Join(dir, "two")); code != 0 {
		t.Fatalf("apply to an empty cluster: %d\n%s", code, out)
	}
	if again, _ := osqueue(t, two, "export"); again != exported {
		t.Errorf("the export of the second cluster:\n%s\nwant\n%s", again, exported)
	}

	// The secret in the file works, with the rights of the file.
	secret, err := os.ReadFile(filepath.Join(keys, "ci.token"))
	check(t, err)
	ci := withToken(t, one, strings.TrimSpace(string(secret)))
	if _, err := ci.Enqueue(one.Context(longPatience), client.NewJob{Type: "ci.build"}); err != nil {
		t.Error(err)
	}
	if _, err := ci.Enqueue(one.Context(longPatience), client.NewJob{Type: "mail"}); !client.HasTag(err, v1.TagForbidden) {
		t.Errorf("a job of another type: %v", err)
	}
}

// Two operators at once, and one that is cut, leave a cluster that the next run completes.
func TestApplyIsCutAndRacedWith(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{TLS: true, Nodes: 1})
	dir := t.TempDir()
	path, keys := filepath.Join(dir, "queue.yaml"), filepath.Join(dir, "keys")
	var text strings.Builder
	text.WriteString("queues:\n")
	const types = 150
	for i := range types {
		fmt.Fprintf(&text, "  type%d: {maxRunning: %d}\n", i, i+1)
	}
	text.WriteString("hooks: {ops: {url: 'https://example.com/x', 'on': [job.dead]}}\ntokens: [{name: a, role: reader}, {name: b, role: reader}]\n")
	check(t, os.WriteFile(path, []byte(text.String()), 0o600))

	for _, after := range []int{1, 40, types - 1, types, types + 1} { // lines
		cmd := operatorCommand(t, c, "apply", "-f", path, "--secrets", keys)
		lines := &killAfter{cmd: cmd, lines: after}
		cmd.Stdout = lines
		_ = cmd.Run() // it is killed, or has nothing to do
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if out, code := osqueue(t, c, "apply", "-f", path, "--secrets", keys); code != 0 {
				t.Errorf("apply: %d\n%s", code, out)
			}
		})
	}
	wg.Wait()
	if out, code := osqueue(t, c, "apply", "-f", path, "--secrets", keys); code != 0 {
		t.Errorf("the last run: %d\n%s", code, out)
	}
	if out, code := osqueue(t, c, "apply", "-f", path, "--secrets", keys, "--dry-run"); code != 0 || out != "" {
		t.Errorf("after the last run: %d\n%s", code, out)
	}
	for _, name := range []string{"ops.hook", "a.token", "b.token"} {
		secret, err := os.ReadFile(filepath.Join(keys, name))
		if err != nil || len(secret) == 0 {
			t.Errorf("%s has %d bytes, %v", name, len(secret), err)
		}
		if text, token := strings.CutSuffix(name, ".token"); token {
			if self, err := withToken(t, c, strings.TrimSpace(string(secret))).Self(c.Context(longPatience)); err != nil || self.Role != "reader" {
				t.Errorf("the token %s: %+v, %v", text, self, err)
			}
		}
	}
}

// withToken returns a client with a token, which repeats no request for long.
func withToken(t *testing.T, c *cluster.Cluster, token string) *client.Client {
	t.Helper()
	secure, err := client.LoadTLS(filepath.Join(c.CertDir(), certs.CAFile), "", "")
	check(t, err)
	q, err := client.New(client.Config{Servers: c.Servers(), TLS: secure, Token: token, RetryFor: time.Second})
	check(t, err)
	t.Cleanup(q.Close)
	return q
}

// killAfter kills a command that has written some lines.
type killAfter struct {
	cmd   *exec.Cmd
	lines int
}

func (k *killAfter) Write(p []byte) (int, error) {
	if k.lines -= bytes.Count(p, []byte("\n")); k.lines <= 0 {
		_ = k.cmd.Process.Kill()
	}
	return len(p), nil
}

// operatorCommand returns a command of osqueue as an admin of the cluster.
func operatorCommand(t *testing.T, c *cluster.Cluster, args ...string) *exec.Cmd {
	t.Helper()
	binary, err := cluster.Binary()
	check(t, err)
	cmd := exec.CommandContext(c.Context(longPatience), binary, args...)
	cmd.Env = append(os.Environ(), "OSQUEUE_SERVERS="+strings.Join(c.Servers(), ","), "OSQUEUE_TOKEN="+c.Token(), "OSQUEUE_CA="+filepath.Join(c.CertDir(), certs.CAFile))
	return cmd
}

// osqueue runs a command, and returns its stdout and exit status.
func osqueue(t *testing.T, c *cluster.Cluster, args ...string) (stdout string, code int) {
	t.Helper()
	cmd := operatorCommand(t, c, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	t.Logf("%s\n%s", strings.Join(args, " "), errs.String())
	return out.String(), cmd.ProcessState.ExitCode()
}
