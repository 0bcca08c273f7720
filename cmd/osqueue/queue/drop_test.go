package queue

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

// dropBucket is a directory with a document in it.
func dropBucket(t *testing.T) string {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "queue.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func drop(t *testing.T, dir, stdin string, args ...string) clitest.Result {
	t.Helper()
	c := osq.Command(t)
	if stdin != "" {
		c.Stdin = strings.NewReader(stdin)
	}
	return c.Run(append([]string{"drop", "--bucket", "file://" + dir}, args...)...)
}

// dropped is the file of a job.
func dropped(t *testing.T, dir, id string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "inbox", id+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestDrop(t *testing.T) {
	for _, c := range []struct {
		args  []string
		stdin string
		want  string
	}{
		{[]string{"--id", "a", ""}, "", `{"id":"a"}`},
		{[]string{"--id", "a", "wc", `{"x": 1.50}`}, "", `{"id":"a","type":"wc","payload":{"x": 1.50}}`},
		{[]string{"--id", "a", "--type", "wc", "5"}, "", `{"id":"a","type":"wc","payload":5}`},
		{[]string{"--id", "a", "wc", "--text"}, "two\nlines", `{"id":"a","type":"wc","payload":"two\nlines"}`},
		{
			strings.Fields(`--id a wc --delay 1500us --priority -4 --max-attempts 9 --lease 2s --job-timeout 1m --group g --tag x --tag y
				--after b --after-failure run --unique k:period:1h --backoff fixed:1s`),
			"", `{"id":"a","type":"wc","priority":-4,"delayMs":2,"maxAttempts":9,"leaseMs":2000,` +
				`"backoff":{"kind":"fixed","baseMs":1000},"timeoutMs":60000,"group":"g","tags":["x","y"],` +
				`"uniqueKey":"k","uniqueScope":"period","uniqueMs":3600000,"after":["b"],"afterFailure":"run"}`,
		},
		{strings.Fields(`--id a --type= --run-at 2030-01-02T03:04:05Z`), "", `{"id":"a","runAt":1893553445000}`},
	} {
		dir := dropBucket(t)
		got := drop(t, dir, c.stdin, c.args...)
		if got.Code != view.ExitOK || got.Out != "a\n" {
			t.Fatalf("%v: %+v", c.args, got)
		}
		if file := dropped(t, dir, "a"); !strings.HasSuffix(file, c.want) {
			t.Errorf("%v: %s, want %s", c.args, file, c.want)
		}
	}
}

func TestDropMakesAnID(t *testing.T) {
	dir := dropBucket(t)
	got := drop(t, dir, "", "wc", "1", "--json")
	var out struct{ JobID, Key string }
	if err := json.Unmarshal([]byte(got.Out), &out, json.MatchCaseInsensitiveNames(true)); err != nil || len(out.JobID) != 36 ||
		out.Key != "inbox/"+out.JobID+".json" {
		t.Fatalf("%+v, %v", got, err)
	}
	if file := dropped(t, dir, out.JobID); !strings.Contains(file, out.JobID) {
		t.Errorf("%s", file)
	}
}

func TestDropTwice(t *testing.T) {
	dir := dropBucket(t)
	for range 2 {
		if got := drop(t, dir, "", "--id", "a", "wc", "1"); got.Code != view.ExitOK || got.Out != "a\n" {
			t.Fatalf("%+v", got)
		}
	}
	if got := drop(t, dir, "", "--id", "a", "wc", "2"); got.Code != view.ExitFailure || got.Err != "osqueue: another job with the id a waits in the inbox: give this job another --id\n" {
		t.Errorf("%+v", got)
	}
}

func TestDropRefusals(t *testing.T) {
	empty := t.TempDir()
	for line, want := range map[string]string{
		"drop wc 1":                                                    "--bucket is missing",
		"drop --bucket mem://x wc 1":                                   "exists in one process only",
		"drop --bucket ftp://x wc 1":                                   `unknown scheme "ftp"`,
		"drop --bucket file:///x wc 1 --timeout 0":                     `"--timeout" flag: must be positive`,
		"drop --bucket file://" + empty + " wc {":                      "not valid JSON",
		"drop --bucket file://" + empty + " wc --id a/b":               "remove the slashes",
		"drop --bucket file://" + empty + " wc 1 --lease 1000h":        "leaseMs is 3600000000; must be at most",
		"drop --bucket file://" + empty + " a b c":                     "too many arguments: a b c",
		"drop --bucket file://" + empty + " wc --delay 1s --run-at 1h": "--delay and --run-at exclude each other",
	} {
		got := osq.Command(t).Run(strings.Fields(line)...)
		if got.Code != view.ExitUsage || !strings.Contains(got.Err, want) {
			t.Errorf("%s: %+v", line, got)
		}
	}
	if got := drop(t, empty, "", "wc", "1"); got.Code != view.ExitFailure || !strings.Contains(got.Err, "has no queue.json") {
		t.Errorf("no queue: %+v", got)
	}
	if names, err := os.ReadDir(empty); err != nil || len(names) > 0 {
		t.Errorf("made %v in a directory that is no bucket, %v", names, err)
	}
	if got := drop(t, empty, "", "wc", "1", "--new", "--id", "a"); got.Code != view.ExitOK || dropped(t, empty, "a") == "" {
		t.Errorf("with --new: %+v", got)
	}
}

// TestDropHelp: what only a server can do is not promised.
func TestDropHelp(t *testing.T) {
	got := osq.Command(t).Run("drop", "--help")
	if strings.Contains(got.Out, "prints the id of that job") {
		t.Errorf("%s", got.Out)
	}
}

// TestDropIntoNoDirectory: a disk that does not let itself be used is no wrong use.
func TestDropIntoNoDirectory(t *testing.T) {
	file := filepath.Join(dropBucket(t), "queue.json")
	if got := drop(t, file, "", "wc", "1"); got.Code != view.ExitFailure || !strings.Contains(got.Err, "not a directory") {
		t.Errorf("%+v", got)
	}
}

// TestDroppedIsWhatSubmitSends: the queue reads the file as the same job.
func TestDroppedIsWhatSubmitSends(t *testing.T) {
	args := strings.Fields(`wc {"a":[1,2]} --id mine --priority 7 --max-attempts 2 --lease 3s --job-timeout 1s --group g --tag t
		--after b --after-failure cancel --unique k --backoff exponential:1s:1h:20% --delay 5s`)
	q := clitest.NewFake(t)
	if got := osq.Run(t, q, "", append([]string{"submit"}, args...)...); got.Code != view.ExitOK {
		t.Fatalf("%+v", got)
	}
	sent := ""
	for _, r := range q.Writes() {
		sent = r.Body
	}
	dir := dropBucket(t)
	if got := drop(t, dir, "", args...); got.Code != view.ExitOK {
		t.Fatalf("%+v", got)
	}
	var a, b v1.NewJob
	file := dropped(t, dir, "mine")
	file = file[strings.Index(file, "{"):]
	if err := json.Unmarshal([]byte(sent), &a); err != nil {
		t.Fatalf("%v in %s", err, sent)
	}
	m, err := core.JobReader(core.Limits{}, 0, nil, func() int64 { return 1 })("mine", []byte(file))
	if err != nil || m.GetEnqueue() == nil {
		t.Fatalf("%s: %v", file, err)
	}
	if err := json.Unmarshal([]byte(file), &b); err != nil {
		t.Fatal(err)
	}
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	if string(x) != string(y) {
		t.Errorf("submit sends %s\ndrop puts  %s", x, y)
	}
}
