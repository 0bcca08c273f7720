package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster"
)

// recordings has a folder for each release: the disk of a node, the bucket, and the jobs that were in the queue, as
// lines of JSON. make record-formats makes it when the release is tagged; nothing changes it afterwards.
const recordings = "testdata/formats"

// This program reads what each release has left: the log and the snapshot of the node, and the bucket, with nodes and
// without. As long as there is no release it reads its own.
func TestRecordedFormats(t *testing.T) {
	t.Parallel()
	if release := os.Getenv("OSQUEUE_RECORD"); release != "" {
		record(t, filepath.Join(recordings, release))
	}
	releases, err := filepath.Glob(filepath.Join(recordings, "v*"))
	check(t, err)
	if len(releases) == 0 {
		own := filepath.Join(t.TempDir(), "own")
		record(t, own)
		releases = []string{own}
	}
	for _, dir := range releases {
		t.Run(filepath.Base(dir)+"/disk", func(t *testing.T) { continues(t, dir, true) })
		t.Run(filepath.Base(dir)+"/bucket", func(t *testing.T) { continues(t, dir, false) })
	}
}

// soon lets a cluster that the document does not name take it over within seconds.
var soon = []string{"--broker-heartbeat", "500ms", "--broker-timeout", "3s", "--max-flush-lag", "4s"}

// record writes a recording of this program.
func record(t *testing.T, dir string) {
	t.Helper()
	c := cluster.Start(t, cluster.Options{Nodes: 1, Flags: append(
		[]string{"--raft-snapshot-threshold", "8", "--raft-snapshot-interval", "100ms", "--raft-trailing-logs", "4"}, soon...)})
	n, ctx := c.Nodes[0], client.WithAck(c.Context(longPatience), client.AckObject)
	far := time.Now().AddDate(9, 0, 0) // the furthest is ten years
	file, err := c.Client.Upload(ctx, "file", "scan", strings.NewReader("a file"))
	check(t, err)
	enqueue := func(jobs ...client.NewJob) {
		for _, j := range jobs {
			_, err := c.Client.Enqueue(ctx, j)
			check(t, err)
		}
	}
	enqueue(
		client.NewJob{ID: "done", Type: "first", Payload: []byte(`{"n":1}`)}, client.NewJob{ID: "dead", Type: "first", MaxAttempts: new(int32(1))},
		client.NewJob{ID: "plain", Type: "mail", Payload: []byte(`"text"`), Priority: 3, Tags: []string{"a", "b"}, Headers: map[string]string{"from": "x"}},
		client.NewJob{ID: "later", Type: "mail", RunAt: far, Unique: client.Unique{Key: "u"}, Group: "g"},
		client.NewJob{ID: "after", Type: "mail", After: []string{"later"}, Sequence: "s", Limits: []string{"customer:7"}},
		client.NewJob{ID: "file", Type: "mail", Artefacts: []client.NamedArtefact{file}},
	)
	claimed, err := c.Client.Claim(ctx, client.ClaimOptions{Worker: "w", Types: []string{"first"}, Max: 2})
	check(t, err)
	if len(claimed) != 2 {
		t.Fatalf("%d jobs", len(claimed))
	}
	for _, j := range claimed {
		if j.ID == "done" {
			check(t, c.Client.Complete(ctx, j.Lease(), []byte("2")))
		} else {
			check(t, c.Client.Fail(ctx, j.Lease(), client.Failure{Error: "broken"}))
		}
	}
	printed(t, "--servers", n.HTTP, "cron", "put", "yearly", "@yearly", "--type", "mail")
	c.Eventually(patience, "a snapshot", func() error {
		st, err := n.Status()
		if err == nil && st.Snapshots == nil {
			enqueue(client.NewJob{Type: "mail"})
			err = errors.New("there is none")
		}
		return err
	})
	enqueue(client.NewJob{ID: "last", Type: "mail"}) // behind the snapshot
	check(t, n.Stop())
	check(t, os.CopyFS(filepath.Join(dir, "disk"), os.DirFS(n.DataDir())))
	check(t, os.CopyFS(filepath.Join(dir, "bucket"), os.DirFS(strings.TrimPrefix(c.Bucket(), "file://"))))
	check(t, os.WriteFile(filepath.Join(dir, "jobs.json"), []byte(jobsOf(t, "--bucket", c.Bucket())), 0o600))
}

// printed returns what a command of the program prints.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	binary, err := cluster.Binary()
	check(t, err)
	out, err := exec.Command(binary, args...).Output()
	if err != nil {
		t.Fatalf("%s: %v", args, err)
	}
	return string(out)
}

func jobsOf(t *testing.T, where ...string) string {
	t.Helper()
	return printed(t, append([]string{"job", "ls", "--status", "all", "--all", "--json"}, where...)...)
}

// continues starts a node on what a release has left, with or without the disk of its node.
func continues(t *testing.T, dir string, withDisk bool) {
	t.Parallel()
	c := cluster.New(t, cluster.Options{Nodes: 1, Flags: soon})
	n := c.Nodes[0]
	check(t, os.CopyFS(strings.TrimPrefix(c.Bucket(), "file://"), os.DirFS(filepath.Join(dir, "bucket"))))
	recorded, err := os.ReadFile(filepath.Join(dir, "jobs.json"))
	check(t, err)
	has(t, jobsOf(t, "--bucket", c.Bucket()), string(recorded), func(v1.Job) bool { return true })
	printed(t, "verify", c.Bucket())
	if withDisk {
		check(t, os.CopyFS(n.DataDir(), os.DirFS(filepath.Join(dir, "disk"))))
	}
	n.Start()
	c.WaitLeader()
	// Retention removes ended jobs some time after the recording.
	has(t, jobsOf(t, "--servers", n.HTTP), string(recorded), func(j v1.Job) bool { return j.FinishedAt == 0 })
	if crons := printed(t, "--servers", n.HTTP, "cron", "ls", "--json"); !strings.Contains(crons, `"yearly"`) {
		t.Errorf("the schedules are %s", crons)
	}
	file, err := c.Client.OpenArtefact(c.Context(patience), "file", "scan")
	check(t, err)
	defer file.Close()
	if text, err := bufio.NewReader(file).ReadString('!'); text != "a file" {
		t.Errorf("%q, %v", text, err)
	}
}

// has fails unless got has the jobs of want that count, each with all fields of it. It may have more fields.
func has(t *testing.T, got, want string, counts func(v1.Job) bool) {
	t.Helper()
	found := map[any]map[string]any{}
	for line := range strings.Lines(got) {
		var fields map[string]any
		check(t, json.Unmarshal([]byte(line), &fields))
		found[fields["id"]] = fields
	}
	n := 0
	for line := range strings.Lines(want) {
		var j v1.Job
		var fields map[string]any
		check(t, errors.Join(json.Unmarshal([]byte(line), &j), json.Unmarshal([]byte(line), &fields)))
		if !counts(j) {
			continue
		}
		n++
		for name, value := range fields {
			if have := found[fields["id"]][name]; !reflect.DeepEqual(have, value) {
				t.Errorf("job %s: %s is %v, and was %v", j.ID, name, have, value)
			}
		}
	}
	if n < 5 {
		t.Errorf("only %d jobs", n)
	}
}
