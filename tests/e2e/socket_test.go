package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"osqueue/client"
	"osqueue/internal/auth/certs"
	"osqueue/tests/cluster"
)

// The user of a node is an admin on its machine, without servers and tokens, also on a node that
// does not lead. Sockets that other users can open, or have made, are refused.
func TestCommandsUseTheAdminSocket(t *testing.T) {
	c := cluster.Start(t, cluster.Options{TLS: true})
	c.WaitLeader()
	binary, err := cluster.Binary()
	if err != nil {
		t.Fatal(err)
	}
	secure, err := client.LoadTLS(filepath.Join(c.CertDir(), certs.CAFile), "", "")
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	run := func(dir string, env []string, args ...string) (string, error) {
		cmd := exec.CommandContext(c.Context(longPatience), binary, args...)
		cmd.Dir = dir
		cmd.Env = append([]string{"HOME=" + home, "XDG_CONFIG_HOME=" + home}, env...)
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	create := []string{"token", "create", "--role", "reader"}
	works := func(what, text string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v: %s", what, err, text)
		}
		cl, err := client.New(client.Config{Servers: c.Servers(), TLS: secure, Token: text})
		if err != nil {
			t.Fatalf("%s: %v: %s", what, err, text)
		}
		defer cl.Close()
		if _, err := cl.Stats(c.Context(longPatience)); err != nil {
			t.Errorf("%s: the token is refused: %v", what, err)
		}
	}
	for _, n := range c.Nodes {
		data := filepath.Join(n.Dir, "data")
		text, err := run(home, nil, append(create, "--data", data)...)
		works("--data on "+n.Name, text, err)
		text, err = run(home, []string{"OSQUEUE_DATA=" + data}, create...)
		works("OSQUEUE_DATA on "+n.Name, text, err)
		here := t.TempDir()
		if err := os.Symlink(data, filepath.Join(here, "osqueue-data")); err != nil {
			t.Fatal(err)
		}
		text, err = run(here, nil, create...)
		works("without flags next to "+n.Name, text, err)
		if out, err := run(home, []string{"OSQUEUE_DATA=" + data}, "submit", "mail", "{}"); err != nil {
			t.Errorf("submit on %s: %v: %s", n.Name, err, out)
		}
	}
	data := filepath.Join(c.Nodes[0].Dir, "data")
	refuses := func(what, why string, args ...string) {
		t.Helper()
		if out, err := run(home, nil, args...); err == nil || !strings.Contains(out, why) {
			t.Errorf("%s: %v: %s", what, err, out)
		}
	}
	refuses("a directory without a node", "no node runs there", append(create, "--data", home)...)
	socket := filepath.Join(data, "admin.sock")
	if err := os.Chmod(socket, 0o666); err != nil {
		t.Fatal(err)
	}
	refuses("an open socket", "open to other users", append(create, "--data", data)...)
	if err := os.Chmod(socket, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "admin.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refuses("a file", "is not a socket", append(create, "--data", home)...)
}
