package work

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/sandbox"
)

func TestWorkerDoesEachKind(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"attempt":` + r.Header.Get("Osqueue-Attempt") + `}`))
	}))
	defer service.Close()
	q := clitest.NewFake(t)
	q.Add(v1.NewJob{ID: "j1", Type: "fill", Payload: []byte(`{"a":"x y"}`)})
	q.Add(v1.NewJob{ID: "j2", Type: "call", Payload: []byte(`1`)})
	q.Add(v1.NewJob{ID: "j3", Type: "py", Payload: []byte(`{"code":"def f(a): return a + 1","function":"f","args":[1]}`)})
	q.Add(v1.NewJob{ID: "j4", Type: "argv", Payload: []byte(`{"argv":["sh","-c","echo out; exit 3"]}`)})
	for _, j := range q.Jobs {
		j.Status = v1.StatusUnclaimed
	}
	got := runUntil(t, q, allEnded, "--exec", `fill=printf '[%s]' {{.a}}`, "--http", "call="+service.URL,
		"--python", "py", "--commands", "argv", "--sandbox", "none")
	var results []string
	for _, j := range q.All() {
		results = append(results, string(j.Result))
	}
	want := []string{`"[x y]"`, `{"attempt":2}`, `2`, `{"exit":3,"stdout":"out\n","stderr":""}`}
	if got.Code != view.ExitOK || !strings.Contains(results[1], "attempt") {
		t.Fatalf("%+v", got)
	}
	results[1] = want[1] // the fake's count of attempts is its own
	if !reflect.DeepEqual(results, want) {
		t.Errorf("%q", results)
	}
}

// Numbers and texts without sense are refused, by name, in the flags and in the file.
func TestWorkerRefusesByName(t *testing.T) {
	q := clitest.NewFake(t)
	refused := func(want string, args ...string) {
		t.Helper()
		got := osq.Command(t, q.Server.URL).Run(append([]string{"worker"}, args...)...)
		if got.Code != view.ExitUsage || !strings.Contains(got.Err, want) {
			t.Errorf("%q: %+v, want it to say %q", args, got, want)
		}
	}
	refused("prefetch -1: must not be negative", "--exec", "a=true", "--prefetch", "-1")
	for _, flag := range []string{"limit-files", "limit-processes"} {
		refused(`"--`+flag+`" flag: must be at least 0`, "--exec", "a=true", "--"+flag, "-1")
	}
	refused(`"--concurrency" flag: must be positive`, "--exec", "a=true", "--concurrency", "-1")
	for _, flag := range []string{"lease", "poll-wait", "stop-timeout", "http-timeout", "limit-time", "limit-cpu"} {
		refused(`"--`+flag+`" flag: "-1s": must not be negative`, "--http", "a=http://b", "--"+flag, "-1s")
	}
	refused(`--exec "a=": write TYPE=COMMAND`, "--exec", "a=")
	refused(`--http "a=": write TYPE=URL`, "--http", "a=")
	for line, want := range map[string]string{
		"concurrency: -1":      "line 1: concurrency: must be positive",
		"prefetch: -1":         "prefetch -1",
		"lease: -1s":           `line 1: lease: "-1s": must not be negative`,
		"limits: {time: -1s}":  `line 1: limit-time: "-1s": must not be negative`,
		"limits: {files: -1}":  "line 1: limit-files: must be at least 0",
		"limits: {memory: -1}": "is not a size",
		"jobs: [{type: b, http: \"http://b\", timeout: -1s}]":    `job 1: line 1: timeout: "-1s": must not be negative`,
		"jobs: [{type: b, exec: \"true\", limits: {time: -1s}}]": `job 1: line 1: limit-time: "-1s": must not be negative`,
		"jobs: [{type: b, exec: \"true\", concurrency: -1}]":     "job 1: line 1: concurrency: must be positive",
	} {
		file := filepath.Join(t.TempDir(), "worker.yaml")
		check(t, os.WriteFile(file, []byte(line+"\n"), 0o600))
		refused(want, "--exec", "a=true", "--config", file)
	}
}

// A level that the machine cannot give is an error before anything is claimed.
func TestWorkerWithoutBubblewrap(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	q := clitest.NewFake(t)
	got := osq.Command(t, q.Server.URL).Run("worker", "--exec", "a=/bin/true", "--sandbox", "namespace")
	if got.Code == view.ExitOK || !strings.Contains(got.Err, "bubblewrap") && !strings.Contains(got.Err, "needs Linux") {
		t.Errorf("%+v", got)
	}
}

// newFlags returns the flags of a worker with some of them given.
func newFlags(t *testing.T, f *workerFlags, args ...string) *pflag.FlagSet {
	t.Helper()
	flags := pflag.NewFlagSet("worker", pflag.ContinueOnError)
	f.bind(flags)
	check(t, flags.Parse(args))
	return flags
}

// The example says everything that there is, and the program takes it.
func TestWorkerExample(t *testing.T) {
	f := &workerFlags{}
	flags := newFlags(t, f, "--prefetch", "0")
	(&view.Globals{Getenv: os.Getenv}).Bind(f.settings)
	fields, err := view.ReadFields("../../../docs/examples/worker.yaml")
	check(t, err)
	check(t, f.readFields(fields))
	for _, name := range []string{"name", "concurrency", "lease", "poll-wait", "stop-timeout", "sandbox", "sandbox-uids", "sandbox-dir", "sandbox-env", "sandbox-ro", "no-cgroup"} {
		if !flags.Lookup(name).Changed {
			t.Errorf("the example does not show %s", name)
		}
	}
	flags.VisitAll(func(flag *pflag.Flag) {
		if strings.HasPrefix(flag.Name, "limit-") && !flag.Changed {
			t.Errorf("the example does not show %s", flag.Name)
		}
	})
	check(t, f.gather())
	if f.sandbox.UIDs != (sandbox.UIDRange{First: 1_900_000_000, Count: 1024}) || f.stopTimeout != 30*time.Second || f.limits.Memory != 1<<30 {
		t.Errorf("%+v", f)
	}
	if got := f.bounds(); len(got) != 1 || got["thumb"] != 2 || f.prefetch != 0 { // the flag comes first
		t.Errorf("%v, %d", got, f.prefetch)
	}
	thumb := f.jobs[1]
	if thumb.Limits.Memory != 256<<20 || thumb.Limits.Processes != 64 || thumb.Sandbox != "process" || f.jobs[0].Sandbox != "none" {
		t.Errorf("%+v", thumb)
	}
	boxes := &workerBoxes{log: slog.New(slog.DiscardHandler)}
	for _, job := range f.jobs {
		job.Sandbox = "none" // not every machine has the others
		if _, err := job.handler(t.Context(), boxes); err != nil {
			t.Errorf("%s: %v", job, err)
		}
	}
}

func TestWorkerConfigFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "worker.yaml")
	write := func(text string) {
		check(t, os.WriteFile(path, []byte(text), 0o600))
	}
	q := clitest.NewFake(t)
	q.Add(v1.NewJob{ID: "j1", Type: "wait"})
	write("name: from-file\njobs:\n- {type: wait, exec: echo 7}\n")
	if got := runUntil(t, q, allEnded, "--config", path, "--name", "w9"); got.Code != view.ExitOK || string(q.All()[0].Result) != "7" || *q.All()[0].WorkerID != "w9" {
		t.Errorf("%+v, %+v", got, q.All())
	}
	for _, text := range []string{
		"jobz: []", "jobs: [{type: a}]", "jobs: [{type: a, exec: echo}]\n---\njobs: [{type: b, exec: echo}]", "jobs: [{exec: a}]", "jobs: [{type: a, exec: a, python: true}]", "jobs: [{type: a, python: true, on-exit: [1=dead]}]",
		"jobs: [{type: a, exec: a, sandbox: some}]", "limits: {memory: lots}", "jobs: [{type: a, exec: a, limits: {ram: 1}}]", "", "jobs: [{type: a, exec: a, timeout: 3s}]",
	} {
		write(text)
		if got := osq.Command(t, q.Server.URL).Run("worker", "--config", path); got.Code != view.ExitUsage {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
