package compose

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	v1 "osqueue/api/v1"
	"osqueue/client"
	"osqueue/tests/cluster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// boxed is the compose cluster, seen from the host.
type boxed struct {
	*engine
	image  string
	client *client.Client
}

// brokers builds the image, starts the compose file, and waits for a leader.
func brokers(e *engine, env ...string) *boxed {
	e.t.Helper()
	binary, err := cluster.Binary()
	if err != nil {
		e.t.Fatal(err)
	}
	b := &boxed{engine: e, image: e.build("broker", "Dockerfile", map[string]string{"bin/osqueue": binary})}
	e.env = append(env, "OSQUEUE_IMAGE="+b.image)
	var servers []string
	for i, port := range freePorts(e.t, 3) {
		e.env = append(e.env, fmt.Sprintf("OSQUEUE_PORT_%d=%d", i+1, port))
		servers = append(servers, fmt.Sprintf("127.0.0.1:%d", port))
	}
	if b.client, err = client.New(client.Config{Servers: servers, RetryFor: 30 * time.Second}); err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(b.client.Close)
	e.up()
	return b
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

// submit enqueues n jobs of the type that the workers of the compose file do.
func (b *boxed) submit(n int) []string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var ids []string
	for range n {
		e, err := b.client.Enqueue(ctx, client.NewJob{Type: "version"})
		if err != nil {
			b.t.Fatal(err)
		}
		ids = append(ids, e.JobID)
	}
	return ids
}

// completed waits until every job is done and has the binary's version as its
// result.
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

// survive is what a cluster in containers must stand: its workers find the
// leader, the leader's container is killed under load, and comes back.
func (b *boxed) survive() {
	b.t.Helper()
	old := b.leader("")
	ids := b.submit(20)
	b.completed(ids)

	ids = b.submit(20)
	killed := b.container(old)
	b.must("docker", "kill", killed)
	ids = append(ids, b.submit(20)...)
	next := b.leader(old)
	b.t.Logf("%s was killed, %s leads", old, next)
	b.completed(ids)

	b.must("docker", "start", killed)
	b.eventually(old+" to follow", func(ctx context.Context) error {
		leader, err := b.client.Status(ctx)
		if err != nil {
			return err
		}
		for _, n := range b.client.StatusAll(ctx) {
			if n.Err == nil && n.Status.NodeID == old && n.Status.State == v1.StateFollower && n.Status.LSN == leader.LSN {
				return nil
			}
		}
		return errors.New("it has not caught up")
	})
}

func TestSharedVolume(t *testing.T) {
	e := newEngine(t, "docker-compose.yml")
	b := brokers(e)
	b.survive()
	b.eventually("the volume to have the document", func(context.Context) error {
		out, err := b.try("docker", "run", "--rm", "--volume", b.project+"_bucket:/bucket", b.image, "inspect", "file:///bucket", "--json")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		var seen any
		return json.Unmarshal([]byte(out), &seen)
	})
}

func TestS3Endpoint(t *testing.T) {
	e := newEngine(t, "docker-compose.yml", filepath.Join("tests", "e2e", "compose", "s3.yml"))
	server := filepath.Join(t.TempDir(), "s3")
	build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-o", server, "./tests/e2e/compose/s3")
	build.Dir = cluster.Root()
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the S3 server: %v\n%s", err, out)
	}
	image := e.build("s3", filepath.Join("tests", "e2e", "compose", "s3.Dockerfile"), map[string]string{"s3": server})
	brokers(e, "OSQUEUE_S3_IMAGE="+image,
		"OSQUEUE_BUCKET=s3://jobs/queue?endpoint=http://s3:9000&region=us-east-1",
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test").survive()
}
