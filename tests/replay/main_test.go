package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"osqueue/tests/replay/player"
	"osqueue/tests/replay/transcript"
)

// write makes a file for a test.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const someCases = `[
	{"name":"right","seq":"a","request":{"method":"GET","path":"/x"},"response":{"status":200,"body":{"a":1}}},
	{"name":"wrong","seq":"a","request":{"method":"POST","path":"/x","body":{"b":2}},"response":{"status":200,"body":{"a":2}}},
	{"name":"odd","seq":"b","quirk":true,"request":{"method":"GET","path":"/x"},"response":{"status":418}},
	{"name":"later","seq":"c","config":"short-expiry","request":{"method":"GET","path":"/x"},"response":{"status":200}},
	{"name":"told","request":{"transport":"timeline","setup":"s"},"response":{}}]`

func answers(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/jobs" {
		_, _ = io.WriteString(w, `{"jobs":[]}`)
		return
	}
	_, _ = io.WriteString(w, `{"a":1}`)
}

// TestCommand plays files as the command does, and checks the output and the exit status.
func TestCommand(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(answers))
	defer server.Close()
	var out bytes.Buffer
	o, err := parse([]string{"-url", server.URL + "/", write(t, "cases.json", someCases)}, &out)
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), o, &out); !errors.Is(err, errFailed) {
		t.Errorf("a case failed, and that is: %v", err)
	}
	for _, want := range []string{
		"cases.json ", "1 pass", "1 fail", "1 quirk", "2 skipped",
		"skipped 1: it needs the set-up short-expiry", "skipped 1: it is data for other tests (timeline)",
		"fail: wrong", `request:  POST /x {"b":2}`, "at:       $.a", "expected: 2", "got:      1",
		"quirk: odd", "expected: 418",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}

	o.config = transcript.ConfigShortExpiry
	if err := run(t.Context(), o, io.Discard); err != nil {
		t.Errorf("nothing failed: %v", err)
	}
	o.files = append(o.files, write(t, "other.json", "[{}]"))
	out.Reset()
	if err := run(t.Context(), o, &out); err == nil || out.Len() > 0 {
		t.Errorf("a file that cannot be read: %v, and before it\n%s", err, out.String())
	}
	server.Close()
	o.files = o.files[:1]
	if err := run(t.Context(), o, io.Discard); err == nil {
		t.Error("nobody answers, and that is no error")
	}
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"-url", "http://a:1", "-ws=false", "-slow=false", "-exact", "-follower", "http://b:1", "-config", "throttled", "f"}, io.Discard)
	if err != nil || !o.player.NoWS || !o.player.NoSlow || !o.player.Exact || o.player.Servers.Follower != "http://b:1" || o.config != "throttled" {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := parse([]string{"-url", "http://a:1", "-ws", "f"}, io.Discard); err != nil || o.player.NoWS || o.player.Exact {
		t.Errorf("%+v, %v", o, err)
	}
	for _, args := range [][]string{{}, {"f"}, {"-url", "http://a:1"}, {"-url", "http://a:1", "-nope", "f"}} {
		if _, err := parse(args, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%v: %v", args, err)
		}
	}
	if _, err := parse([]string{"-help"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-help: %v", err)
	}
}

// TestJudge compares results with the list.
func TestJudge(t *testing.T) {
	results := make(map[string]player.Result)
	for name, outcome := range map[string]player.Outcome{
		"good": player.Pass, "bad": player.Fail, "odd": player.Quirk,
		"known": player.Fail, "mended": player.Pass, "calm": player.Quirk, "left out": player.Skipped,
	} {
		results["leader f.json "+name] = player.Result{File: "f.json", Case: &transcript.Case{Name: name}, Outcome: outcome}
	}
	pending := []string{
		"leader f.json known", "leader f.json mended", "leader f.json calm", "leader f.json left out", "leader f.json gone", "leader needs rest submit",
	}
	v := judge(results, pending)
	for _, c := range []struct {
		got  []string
		want string
	}{
		{v.failing, "leader f.json bad"},
		{v.passing, "leader f.json calm;leader f.json mended"},
		{v.unknown, "leader f.json gone"},
	} {
		if got := strings.Join(c.got, ";"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestPending(t *testing.T) {
	path := write(t, "pending.txt", "# people\n\nleader f one\nfollower f one two\n")
	got, err := readPending(path)
	if want := []string{"leader f one", "follower f one two"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if err := shrinkPending(path, []string{"leader f one", "leader f other"}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "# people\n\nfollower f one two\n" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := readPending(write(t, "pending.txt", "x y z\nx y z\n")); err == nil {
		t.Error("a line that is there twice was not noticed")
	}
	if _, err := readPending(path + "x"); err == nil {
		t.Error("a file that is not there was not noticed")
	}
}

// TestPendingNamesPlayedCases refuses lines for cases that are never played: nothing would ever
// remove such a line.
func TestPendingNamesPlayedCases(t *testing.T) {
	pending, err := readPending(pendingFile)
	if err != nil {
		t.Fatal(err)
	}
	played := make(map[string]bool)
	for _, f := range recordings(t) {
		for i := range f.Cases {
			for _, m := range modes {
				played[string(m)+" "+f.Name+" "+f.Cases[i].Name] = f.Cases[i].Played() && !f.Cases[i].Quirk
			}
		}
	}
	for _, line := range pending {
		if !isNeed(line) && !played[line] {
			t.Errorf("%s: no such case is played", line)
		}
	}
}
