package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// guideScript are the commands of the guide, with another port, as a script that
// ends at the first one that fails.
func guideScript(t *testing.T, port int) string {
	t.Helper()
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{"set -ex -o pipefail", "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT"}
	for _, line := range strings.Split(string(guide), "\n") {
		if cmd, ok := strings.CutPrefix(line, "    $ "); ok {
			lines = append(lines, strings.ReplaceAll(cmd, ":8080", ":"+strconv.Itoa(port)))
		}
	}
	if len(lines) < 60 {
		t.Fatalf("the guide has only %d commands", len(lines))
	}
	return strings.Join(lines, "\n") + "\n"
}

// Every command of docs/guide.md works, in their order.
func TestGuide(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the guide needs %s: %v", tool, err)
		}
	}
	d := newDevProcess(t)
	// What the guide asks curl or status has no second try: a busy machine must not cost
	// the cluster its leader meanwhile.
	d.start("--raft-heartbeat", "3s", "--raft-election", "3s", "--raft-lease", "3s")
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(d.dir, "osqueue")); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(d.dir, "guide.sh")
	if err := os.WriteFile(script, []byte(guideScript(t, d.http)), 0o600); err != nil {
		t.Fatal(err)
	}
	bash := exec.Command("bash", script)
	bash.Env = append(d.command().Env, "PATH="+d.dir+":"+os.Getenv("PATH"), "BUCKET="+d.bucket())
	var out bytes.Buffer
	bash.Stdout, bash.Stderr = &out, &out
	if err := bash.Start(); err != nil {
		t.Fatal(err)
	}
	limit := time.AfterFunc(2*time.Minute, func() { _ = bash.Process.Kill() })
	defer limit.Stop()
	if err := bash.Wait(); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
	for _, problem := range []string{"bad_request", "unknown_member", "not_found", "internal_error", "wrong_status"} {
		if strings.Contains(out.String(), problem) {
			t.Errorf("an answer says %s:\n%s", problem, out.String())
		}
	}
}
