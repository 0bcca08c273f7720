package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth/certs"
	"osqueue/tests/cluster"
)

// boxed is the compose cluster, seen from the host.
type boxed struct {
	*engine
	image  string
	bucket string // as the brokers see it
	client *client.Client
}

// startBoxed builds the image and starts the compose file.
func startBoxed(e *engine, bucket string, env ...string) *boxed {
	e.t.Helper()
	binary, err := cluster.Binary()
	if err != nil {
		e.t.Fatal(err)
	}
	b := &boxed{engine: e, bucket: bucket, image: e.build("broker", "Dockerfile", map[string]string{"bin/osqueue": binary})}
	e.env = append(env, "OSQUEUE_IMAGE="+b.image, "OSQUEUE_BUCKET="+bucket)
	var servers []string
	first := freePorts(e.t, 3)
	for i := range 3 {
		e.env = append(e.env, fmt.Sprintf("OSQUEUE_PORT_%d=%d", i+1, first+i))
		servers = append(servers, fmt.Sprintf("127.0.0.1:%d", first+i))
	}
	e.up()
	cfg := client.Config{Servers: servers, RetryFor: 30 * time.Second}
	cfg.TLS, cfg.Token = b.credentials()
	if b.client, err = client.New(cfg); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(b.client.Close)
	return b
}

// credentials returns the CA and the first access token that the container init has made.
func (b *boxed) credentials() (*tls.Config, string) {
	b.t.Helper()
	dir, init := b.t.TempDir(), b.container("init")
	var read [2][]byte
	for i, name := range []string{certs.CAFile, "admin.token"} {
		b.must("docker", "cp", init+":/ca/"+name, dir)
		var err error
		if read[i], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			b.t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(read[0]) {
		b.t.Fatal("the CA has no certificate")
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}, strings.TrimSpace(string(read[1]))
}

// eventually waits for a condition.
func (b *boxed) eventually(what string, cond func(ctx context.Context) error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		err := cond(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			b.t.Fatalf("waited in vain for %s: %v", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// leader waits for an active leader other than old and returns its name.
func (b *boxed) leader(old string) (name string) {
	b.t.Helper()
	b.eventually("an active leader", func(ctx context.Context) error {
		var said []string
		for _, n := range b.client.StatusAll(ctx) {
			if n.Err == nil && n.Status.State == v1.StateLeader && n.Status.NodeID != old {
				name = n.Status.NodeID
				return nil
			}
			said = append(said, fmt.Sprintf("%s: %s %s %v", n.Server, n.Status.State, n.Status.Fence.Reason, n.Err))
		}
		return errors.New(strings.Join(said, "; "))
	})
	return name
}

// joined waits until the leader knows the given number of workers. The compose file gives them
// all brokers: they find the leader themselves.
func (b *boxed) joined(workers int) {
	b.t.Helper()
	b.eventually("the workers", func(ctx context.Context) error {
		s, err := b.client.Status(ctx)
		if err == nil && s.Workers != workers {
			err = fmt.Errorf("%s knows %d", s.NodeID, s.Workers)
		}
		return err
	})
}

// completed waits until every job is completed and has the binary's version as its result.
func (b *boxed) completed(ids []string) {
	b.t.Helper()
	for _, id := range ids {
		b.eventually("job "+id, func(ctx context.Context) error {
			j, err := b.client.Job(ctx, id)
			if err != nil {
				return err
			}
			if j.Status != v1.StatusCompleted {
				return fmt.Errorf("it is %s", j.Status)
			}
			if !strings.Contains(string(j.Result), "osqueue") {
				b.t.Fatalf("the result of job %s is %s", id, j.Result)
			}
			return nil
		})
	}
}

// follows waits until a node follows a leader, and has applied the leader's log.
func (b *boxed) follows(node string) {
	b.t.Helper()
	b.eventually(node+" to follow", func(ctx context.Context) error {
		var leader, it v1.Status
		for _, n := range b.client.StatusAll(ctx) {
			switch {
			case n.Err != nil:
			case n.Status.NodeID == node:
				it = n.Status
			case n.Status.State == v1.StateLeader:
				leader = n.Status
			}
		}
		if leader.LSN == "" || it.State != v1.StateFollower || it.LSN != leader.LSN {
			return fmt.Errorf("%s is %q at %q, the leader %q is at %q", node, it.State, it.LSN, leader.NodeID, leader.LSN)
		}
		return nil
	})
}

// inBucket waits until the document in the bucket counts n completed jobs. A container of its
// own reads the document.
func (b *boxed) inBucket(n int) {
	b.t.Helper()
	read := []string{
		"docker", "run", "--rm", "--network", b.project + "_osqueue", "--volume", b.project + "_bucket:/bucket",
		"--env", "AWS_ACCESS_KEY_ID", "--env", "AWS_SECRET_ACCESS_KEY", b.image, "inspect", b.bucket, "--json",
	}
	b.eventually("the document in the bucket", func(context.Context) error {
		out, err := b.try(commandTimeout, read...)
		if err != nil {
			return err
		}
		var document struct {
			Stats struct {
				CompletedTotal int `json:"completedTotal"`
			} `json:"stats"`
		}
		if err := json.Unmarshal([]byte(out), &document); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		if document.Stats.CompletedTotal != n {
			return fmt.Errorf("it counts %d completed jobs, not %d", document.Stats.CompletedTotal, n)
		}
		return nil
	})
}

// survive tests a cluster in containers: its workers find the leader, the leader's container is
// killed under load, and comes back.
func (b *boxed) survive() {
	b.t.Helper()
	old := b.leader("")
	b.joined(2)
	killed := b.container(old)

	load := b.produce()
	load.reach(20)
	b.must("docker", "kill", killed)
	next := b.leader(old)
	load.reach(load.acked() + 20)
	ids := load.stop()
	b.t.Logf("%s was killed, %s leads: %d jobs acknowledged", old, next, len(ids))
	b.completed(ids)

	b.must("docker", "start", killed)
	b.follows(old)
	b.inBucket(len(ids))
}

func TestSharedVolume(t *testing.T) {
	t.Parallel()
	e := newEngine(t, "docker-compose.yml")
	b := startBoxed(e, "file:///bucket")
	b.separated()
	b.survive()
}

// separated checks that each container has its own files only: the key of the CA and the admin
// token stay in the container init, and the worker's token can do no more than a worker.
func (b *boxed) separated() {
	b.t.Helper()
	for service, files := range map[string][]string{
		"n1": {"bootstrap.json", "ca.crt", "n1.crt", "n1.key", "n1.yaml"}, "worker": {"ca.crt", "worker.token"},
	} {
		dir := b.t.TempDir()
		container, _, _ := strings.Cut(b.container(service), "\n")
		b.must("docker", "cp", container+":/certs/.", dir)
		entries, err := os.ReadDir(dir)
		if err != nil {
			b.t.Fatal(err)
		}
		var have []string
		for _, e := range entries {
			have = append(have, e.Name())
		}
		if !slices.Equal(have, files) {
			b.t.Errorf("%s has the files %v in /certs, want %v", service, have, files)
		}
	}
	b.eventually("the status of the cluster, from the container init", func(context.Context) error {
		_, err := b.try(commandTimeout, b.composed("run", "--rm", "init", "--ca", "/ca/ca.crt", "--token-file", "/ca/admin.token", "token", "ls")...)
		return err
	})
}

func TestS3Endpoint(t *testing.T) {
	t.Parallel()
	e := newEngine(t, "docker-compose.yml", filepath.Join("tests", "e2e", "compose", "s3.yml"))
	server := filepath.Join(t.TempDir(), "s3")
	build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-o", server, "./tests/e2e/compose/s3")
	build.Dir = cluster.Root()
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the S3 server: %v\n%s", err, out)
	}
	image := e.build("s3", filepath.Join("tests", "e2e", "compose", "s3.Dockerfile"), map[string]string{"s3": server})
	startBoxed(e, "s3://jobs/queue?endpoint=http://s3:9000&region=us-east-1",
		"OSQUEUE_S3_IMAGE="+image, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test").survive()
}
