package e2e

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/client/worker"
	"osqueue/tests/cluster"
)

// startHandler runs a worker with one handler until the test ends.
func startHandler(t *testing.T, c *client.Client, fn worker.HandlerFunc) {
	t.Helper()
	w, err := worker.New(c, worker.Config{Concurrency: 2, StopTimeout: -1})
	if err != nil {
		t.Fatal(err)
	}
	w.Handle("live", fn)
	ctx, stop := context.WithCancel(t.Context())
	var runs sync.WaitGroup
	runs.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Errorf("the worker: %v", err)
		}
	})
	t.Cleanup(func() { stop(); runs.Wait() })
}

// followAll returns what a follower sees until the job has ended, and the bytes that it lost.
// seen is called with all that it has seen so far.
func followAll(ctx context.Context, t *testing.T, c *client.Client, id string, seen func(string)) (text string, lost int64) {
	t.Helper()
	var b strings.Builder
	for chunk, err := range c.FollowLogs(ctx, id) {
		if err != nil {
			t.Fatalf("after %d bytes: %v", b.Len(), err)
		}
		if client.IsSealedText(chunk.Text) {
			t.Fatal("a chunk is encrypted")
		}
		lost += chunk.Lost
		b.WriteString(chunk.Text)
		seen(b.String())
	}
	return b.String(), lost
}

// A follower sees each line of a running job once and in order, although the leader is killed
// while it follows. Lines are encrypted on their way.
func TestLogIsFollowedOverALeaderKill(t *testing.T) {
	t.Parallel()
	c, _ := startOnStore(t)
	keys := newSealer(t)
	open := func() *client.Client {
		sealed, err := client.New(client.Config{Servers: c.Servers(), Cipher: keys})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(sealed.Close)
		return sealed
	}
	const lines = 150
	var mu sync.Mutex
	goOn := make(chan struct{})
	startHandler(t, open(), func(ctx context.Context, job worker.Job) (json.RawMessage, error) {
		for i := range lines {
			job.Log(fmt.Sprint("line ", i))
			if i == lines/3 {
				<-goOn
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		return nil, nil
	})
	producer := c.NewClient()
	ctx := c.Context(2 * time.Minute)
	if _, err := producer.Enqueue(ctx, client.NewJob{ID: "followed", Type: "live"}); err != nil {
		t.Fatal(err)
	}
	old := c.WaitLeader()
	killed := false
	text, lost := followAll(ctx, t, open(), "followed", func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if !killed && strings.Contains(text, fmt.Sprint("line ", lines/3)) {
			killed = true
			old.Kill()
			next := c.WaitOtherLeader(old)
			t.Logf("%s was killed after %d bytes, %s leads", old.Name, len(text), next.Name)
			close(goOn)
		}
	})
	var want strings.Builder
	for i := range lines {
		fmt.Fprintln(&want, "line", i)
	}
	if text != want.String() || lost != 0 || !killed {
		t.Errorf("lost %d bytes and saw\n%s", lost, text)
	}
	old.Start()
}

// A follower that reads slowly learns how many bytes it lost: with those that it got they are
// all that the job has written.
func TestSlowFollowerLearnsItsLoss(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	const rounds = 60
	burst := strings.Repeat(strings.Repeat("x", 99)+"\n", 400) // 40 kB, more than the worker keeps
	producer := c.NewClient()
	startHandler(t, c.NewClient(), func(ctx context.Context, job worker.Job) (json.RawMessage, error) {
		for range rounds {
			if _, err := fmt.Fprint(job.LogWriter(), burst); err != nil {
				return nil, err
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		return nil, nil
	})
	ctx := c.Context(2 * time.Minute)
	if _, err := producer.Enqueue(ctx, client.NewJob{ID: "fast", Type: "live"}); err != nil {
		t.Fatal(err)
	}
	text, lost := followAll(ctx, t, producer, "fast", func(string) { time.Sleep(300 * time.Millisecond) })
	if int64(len(text))+lost != int64(rounds*len(burst)) || lost == 0 {
		t.Errorf("saw %d bytes and lost %d, of %d", len(text), lost, rounds*len(burst))
	}
	t.Logf("saw %d bytes and lost %d", len(text), lost)
}

// sealer is a client.Cipher for tests.
type sealer struct{ cipher.AEAD }

func newSealer(t *testing.T) sealer {
	t.Helper()
	block, err := aes.NewCipher(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		t.Fatal(err)
	}
	return sealer{aead}
}

func (s sealer) EncryptWithContext(_ context.Context, plain, bound []byte) ([]byte, error) {
	return s.Seal(nil, nil, plain, bound), nil
}

func (s sealer) DecryptWithContext(_ context.Context, sealed, bound []byte) ([]byte, error) {
	return s.Open(nil, nil, sealed, bound)
}
