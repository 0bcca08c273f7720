package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/fsm"
	"osqueue/storage/archive"
	"osqueue/storage/file"
	"osqueue/tests/cluster"
	"osqueue/tests/history"
	"osqueue/tests/model"
	"osqueue/tests/workload"
)

// Backups are taken under load while checkpoints are written, leaders are killed, and backups are killed. Each one that
// is there has the state that the nodes had at its LSN, and a cluster that starts on it has its sealed jobs and files.
func TestBackupsUnderLoad(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Flags: []string{"--raft-trailing-logs", "1000000"}})
	dir := filepath.Join(t.TempDir(), "backup")
	to := "file://" + dir
	ring, secretFile := newRing(t), []byte(noise(100_000))
	sealed := sealedClient(t, c.Servers(), ring, true)
	film, err := sealed.Upload(c.Context(patience), "sealed", "film", bytes.NewReader(secretFile))
	check(t, err)
	_, err = sealed.Enqueue(c.Context(patience), client.NewJob{ID: "sealed", Type: "kept", Payload: []byte(`"` + secret + `"`), Artefacts: []client.NamedArtefact{film}})
	check(t, err)

	load, err := workload.Start(workload.Config{Seed: 7}, c.Servers(), history.NewRecorder(nil, history.Run{}))
	check(t, err)
	stopBulk := bulk(t, c)
	killed, written := 0, make(map[string]bool)
	random := rand.New(rand.NewPCG(7, 7))
	for round, begin := 0, time.Now(); round < 8 || checkpointsIn(t, dir) < 3 && time.Since(begin) < 2*time.Minute; round++ {
		var kill time.Duration
		switch round % 4 {
		case 1:
			kill = time.Duration(random.IntN(200)) * time.Millisecond
		case 3:
			c.WaitLeader().Kill()
		}
		report, ended := backUp(t, c.Bucket(), to, kill)
		switch {
		case !ended:
			killed++
		case report.LSN == "" || report.Missing != nil:
			t.Errorf("round %d: %+v", round, report)
		default:
			written[report.Key] = true
		}
		for _, n := range c.Nodes {
			if !n.Running() {
				n.Start()
			}
		}
		c.WaitLeader()
	}
	stopBulk()
	load.StopProducing()
	if err := load.Drain(c.Context(time.Minute)); err != nil {
		t.Error(err)
	}
	load.Close()
	if out, code := command(t, "drill", to); code != 0 {
		t.Errorf("drill: %d\n%s", code, out)
	}
	if out, code := command(t, "drill", to, "--max-age", "1ms"); code != 1 || !strings.Contains(out, "more than --max-age 1ms") {
		t.Errorf("drill of an old one: %d\n%s", code, out)
	}
	c.StopAll()
	checkBackups(t, c, dir, written, killed)
	startOnBackup(t, to, ring, secretFile)
}

// bulk writes some MiB of jobs a second, so that checkpoints are due.
func bulk(t *testing.T, c *cluster.Cluster) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	own, random := c.NewClient(), rand.NewChaCha8([32]byte{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			batch := make([]client.NewJob, 20)
			for i := range batch {
				data := make([]byte, 20_000) // it cannot be compressed well
				_, _ = random.Read(data)
				batch[i] = client.NewJob{Type: "bulk", Payload: fmt.Appendf(nil, "%q", base64.StdEncoding.EncodeToString(data))}
			}
			_, _ = own.EnqueueBatch(ctx, batch) // it fails while there is no leader
		}
	}()
	return func() { cancel(); <-done }
}

// backupLine is what osqueue backup --json prints.
type backupLine struct {
	Key, LSN string
	Missing  []string
}

// checkpointsIn returns the number of checkpoints in a directory.
func checkpointsIn(t *testing.T, dir string) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "checkpoint", "*", "*", "manifest.json"))
	check(t, err)
	return len(found)
}

// backUp runs osqueue backup, and kills it after a time that is not 0.
func backUp(t *testing.T, from, to string, kill time.Duration) (line backupLine, ended bool) {
	t.Helper()
	binary, err := cluster.Binary()
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if kill > 0 {
		ctx, cancel = context.WithTimeout(ctx, kill)
		defer cancel()
	}
	out, err := exec.CommandContext(ctx, binary, "backup", "--from", from, "--to", to, "--json").Output()
	if kill > 0 && ctx.Err() != nil {
		return line, false
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("%v\n%s", err, exit.Stderr)
	}
	check(t, err)
	check(t, json.Unmarshal(out, &line))
	return line, true
}

// checkBackups compares each backup with the replayed logs of the stopped nodes, and restores it.
func checkBackups(t *testing.T, c *cluster.Cluster, dir string, written map[string]bool, killed int) {
	t.Helper()
	bucket, err := file.OpenReadOnly(t.Context(), &url.URL{Scheme: "file", Path: dir})
	check(t, err)
	all, err := archive.Backups(t.Context(), bucket)
	check(t, err)
	at := make([]fsm.LSN, len(all))
	for i, b := range all {
		at[i] = b.LSN
	}
	replayed := make(map[fsm.LSN]string)
	for _, n := range c.Nodes {
		log, err := n.RaftLog()
		check(t, err)
		_, states, err := model.Applied(n.Name, log, at...)
		check(t, err)
		for _, s := range states {
			replayed[s.LSN.LSN] = s.Hash
		}
	}
	checkpoints := make(map[fsm.LSN]bool)
	for i, b := range all {
		h, err := archive.Open(t.Context(), bucket, b.Key())
		check(t, err)
		m, err := h.At(t.Context(), archive.Target{})
		check(t, err)
		hash := m.View().Hash()
		if got := hex.EncodeToString(hash[:]); got != replayed[b.LSN] {
			t.Errorf("%s has the state %s, and the nodes had %q", b.Key(), got, replayed[b.LSN])
		}
		checkpoints[h.Document().Archive.Checkpoint.LSN] = true
		restored := fmt.Sprintf("file://%s-%d", dir, i)
		out, code := command(t, "restore", "--from", "file://"+dir, "--document", b.Key(), "--to", restored)
		if want := fmt.Sprintf(": %d jobs, LSN ", m.Counts().Sum()); code != 0 || !strings.Contains(out, want) || strings.Contains(out, "missing or damaged") {
			t.Errorf("restore %s: %d, without %q\n%s", b.Key(), code, want, out)
		}
	}
	t.Logf("%d backups of %d checkpoints; %d were written, %d killed", len(all), len(checkpoints), len(written), killed)
	for _, b := range all {
		delete(written, b.Key())
	}
	if len(written) > 0 || len(checkpoints) < 2 || killed == 0 {
		t.Error("the test did not see checkpoints or kills, or has lost backups")
	}
}

// startOnBackup starts a cluster on the newest backup, and reads the sealed job and its file.
func startOnBackup(t *testing.T, to, ring string, want []byte) {
	t.Helper()
	restored := "file://" + filepath.Join(t.TempDir(), "restored")
	if out, code := command(t, "restore", "--from", to, "--to", restored); code != 0 {
		t.Fatalf("restore: %d\n%s", code, out)
	}
	next := cluster.Start(t, cluster.Options{Nodes: 1, Prefix: "r", Bucket: restored})
	keys := sealedClient(t, next.Servers(), ring, false) // the load may have completed the job
	job, err := keys.Job(next.Context(patience), "sealed")
	if err != nil || string(job.Payload) != `"`+secret+`"` {
		t.Fatalf("%+v, %v", job, err)
	}
	r, err := keys.OpenArtefact(next.Context(patience), "sealed", "film")
	check(t, err)
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the file has %d bytes, of %d: %v", len(got), len(want), err)
	}
}
