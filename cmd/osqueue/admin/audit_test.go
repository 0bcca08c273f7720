package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

func auditLine(at time.Time, principal, action, object, outcome string) string {
	return fmt.Sprintf(`{"time":%q,"principal":%q,"address":"127.0.0.1:1","action":%q,"object":%q,"lsn":"2-7","status":200,"outcome":%q}`+"\n",
		at.Format(time.RFC3339Nano), principal, action, object, outcome)
}

func TestAudit(t *testing.T) {
	now := time.Now().UTC()
	name := filepath.Join(t.TempDir(), "audit.log")
	files := []string{"audit", name, name + ".1"}
	for i, text := range []string{
		auditLine(now.Add(-time.Hour), "bert", "DELETE /v1/jobs/{id}", "job-1", "ok") + "garbage\n" + strings.Repeat("x", auditLineMax+1) + "\n" +
			auditLine(now.Add(-time.Minute), "anna", "POST /v1/queues/{type}/pause", "mail", "forbidden"),
		strings.TrimSuffix(auditLine(now.Add(-3*time.Hour), "anna", "POST /v1/jobs", "", "ok"), "\n"),
	} {
		err := os.WriteFile(files[1+i], []byte(text), 0o600)
		if err := errors.Join(err, os.Chtimes(files[1+i], now, now.Add(-time.Duration(i)*time.Hour))); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) clitest.Result {
		return clitest.Tree(Commands).Command(t).Run(append(append(files, "--json"), args...)...)
	}
	for args, want := range map[string]int{
		"": 3, "--principal anna": 2, "--principal b*": 1, "--action DELETE*": 1, "--action *pause": 1, "--object mail": 1,
		"--outcome forbidden": 1, "--since 2h": 2, "--until 2h": 1, "--since 30m --principal bert": 0,
	} {
		got := run(strings.Fields(args)...)
		if n := strings.Count(got.Out, "\n"); got.Code != view.ExitOK || n != want || !strings.Contains(got.Err, "3 lines are not entries") {
			t.Errorf("%s: %d entries, want %d: %+v", args, n, want, got)
		}
	}
	if got := run(); !strings.HasPrefix(got.Out, `{"time":"`+now.Add(-3*time.Hour).Format("2006-01-02T15:04")) {
		t.Errorf("the older file is not first: %s", got.Out)
	}
	for _, args := range []string{"--since soon", "--action [", "--follow"} {
		if got := run(strings.Fields(args)...); got.Code != view.ExitUsage {
			t.Errorf("%s: %+v", args, got)
		}
	}
	stdin := clitest.Tree(Commands).Command(t)
	stdin.Stdin = strings.NewReader(auditLine(now, "one", "POST /v1/jobs", "", "ok") + auditLine(now, "two", "POST /v1/jobs", "", "ok"))
	if got := stdin.Run("audit", "-", "--principal", "two"); got.Code != view.ExitOK || strings.Count(got.Out, "\n") != 2 || !strings.Contains(got.Out, "two") {
		t.Errorf("%+v", got)
	}
	if got := clitest.Tree(Commands).Command(t).Run("audit", name+".none"); got.Code != view.ExitFailure {
		t.Errorf("%+v", got)
	}
}

// Without files the entries of all nodes are merged by time; a node that does not answer is
// named, and is an error only if no other one answers.
func TestAuditOfTheCluster(t *testing.T) {
	at := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	serve := func(node string, minutes ...int) (address string) {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != v1.PathAudit {
				http.NotFound(w, r)
				return
			}
			page := v1.AuditPage{Node: node, Kept: 1, NextCursor: "x-1"}
			for _, m := range minutes {
				page.Entries = append(page.Entries, v1.AuditEntry{
					Time: at.Add(time.Duration(m) * time.Minute).Format(time.RFC3339Nano), Node: node, Action: "POST /v1/jobs", Outcome: "ok",
				})
			}
			_ = json.NewEncoder(w).Encode(page) // the test reads it
		}))
		t.Cleanup(srv.Close)
		return srv.Listener.Addr().String()
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	lost := gone.Listener.Addr().String()
	run := func(servers ...string) clitest.Result {
		return clitest.Tree(Commands).Command(t).Run("audit", "--json", "--servers", strings.Join(servers, ","))
	}
	got := run(serve("n1", 1, 3), serve("n2", 2), lost)
	if order := regexp.MustCompile(`"node":"(n.)"`).FindAllString(got.Out, -1); got.Code != view.ExitOK || strings.Join(order, "") != `"node":"n1""node":"n2""node":"n1"` {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(got.Err, lost) {
		t.Errorf("the node that is gone is not named: %s", got.Err)
	}
	if got := run(lost); got.Code == view.ExitOK || !strings.Contains(got.Err, "no node returned its audit log") {
		t.Errorf("%+v", got)
	}
}
