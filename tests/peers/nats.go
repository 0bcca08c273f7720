package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"osqueue/tests/cluster"
	"osqueue/tests/measure"
)

const (
	natsStream    = "JOBS"
	natsSubject   = "jobs." + jobType
	natsConsumer  = "workers"
	natsServers   = 3
	natsConnected = 4 // connections that all callers share, as those of the SDK do
)

// natsBinary returns the path of the server that the Makefile builds, or of one of the system.
func natsBinary() (string, error) {
	for _, name := range []string{os.Getenv("PEERS_NATS_SERVER"), "nats-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", errors.New("nats-server is not installed: run make bin/peers/nats-server")
}

func checkNATS() error {
	_, err := natsBinary()
	return err
}

// natsQueue is a JetStream cluster with one stream of three replicas.
type natsQueue struct {
	pids  map[string]int // by the name of the server
	conns []*nats.Conn
	js    []jetstream.JetStream
	jobs  []jetstream.Consumer // one for each connection
}

func startNATS(p *measure.Place) (queue, error) {
	binary, err := natsBinary()
	if err != nil {
		return nil, err
	}
	q := &natsQueue{pids: make(map[string]int)}
	subnet := cluster.FreshNet()
	var routes, urls []string
	for i := range natsServers {
		routes = append(routes, fmt.Sprintf("nats://%s.%d:6222", subnet, i+1))
		urls = append(urls, fmt.Sprintf("nats://%s.%d:4222", subnet, i+1))
	}
	for i := range natsServers {
		name := fmt.Sprintf("s%d", i+1)
		config := filepath.Join(p.Dir, name+".conf")
		text := fmt.Sprintf(`server_name: %[1]s
listen: "%[2]s.%[3]d:4222"
jetstream { store_dir: %[4]q, sync_interval: always }
cluster { name: bench, listen: "%[2]s.%[3]d:6222", routes: [%[5]s] }
`, name, subnet, i+1, filepath.Join(p.Dir, name), `"`+strings.Join(routes, `", "`)+`"`)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return nil, err
		}
		if q.pids[name], err = launch(p, name, exec.Command(binary, "-c", config)); err != nil {
			return nil, err
		}
	}
	return q, q.connect(p, urls)
}

// connect opens the connections and creates the stream and its consumer.
func (q *natsQueue) connect(p *measure.Place, urls []string) error {
	for i := range natsConnected {
		var c *nats.Conn
		err := eventually("connect to NATS", func() (err error) {
			c, err = nats.Connect(strings.Join(urls, ","), nats.DontRandomize())
			return err
		})
		if err != nil {
			return err
		}
		p.Cleanup(c.Close)
		js, err := jetstream.New(c)
		if err != nil {
			return err
		}
		if i == 0 {
			if err := eventually("create the stream", func() error { return createStream(js) }); err != nil {
				return err
			}
		}
		var consumer jetstream.Consumer
		err = eventually("find the consumer", func() (err error) {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			consumer, err = js.Consumer(ctx, natsStream, natsConsumer)
			return err
		})
		if err != nil {
			return err
		}
		q.conns, q.js, q.jobs = append(q.conns, c), append(q.js, js), append(q.jobs, consumer)
	}
	return nil
}

func createStream(js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: natsStream, Subjects: []string{"jobs.>"},
		Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage, Replicas: natsServers,
	})
	if err != nil {
		return err
	}
	_, err = s.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: natsConsumer, AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute, MaxAckPending: -1,
	})
	return err
}

func (q *natsQueue) roles() []role {
	leader, followers := role{name: "leader"}, role{name: "followers"}
	name := q.streamLeader()
	for server, pid := range q.pids {
		if server == name {
			leader.pids = append(leader.pids, pid)
		} else {
			followers.pids = append(followers.pids, pid)
		}
	}
	return []role{leader, followers}
}

// streamLeader returns the name of the server that leads the stream, or "" if it is not known.
func (q *natsQueue) streamLeader() string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s, err := q.js[0].Stream(ctx, natsStream)
	if err != nil || s.CachedInfo().Cluster == nil {
		return ""
	}
	return s.CachedInfo().Cluster.Leader
}

func (q *natsQueue) newCaller(i, _ int) (caller, error) {
	n := i % len(q.js)
	return &natsCaller{js: q.js[n], jobs: q.jobs[n]}, nil
}

type natsCaller struct {
	js   jetstream.JetStream
	jobs jetstream.Consumer
}

func (c *natsCaller) close() {}

func (c *natsCaller) enqueue(ctx context.Context, payload []byte) error {
	_, err := c.js.Publish(ctx, natsSubject, payload)
	return err
}

// enqueueBatch publishes without a wait for each answer, and then waits for all answers.
func (c *natsCaller) enqueueBatch(ctx context.Context, payloads [][]byte) error {
	futures := make([]jetstream.PubAckFuture, len(payloads))
	for i, p := range payloads {
		f, err := c.js.PublishAsync(natsSubject, p)
		if err != nil {
			return err
		}
		futures[i] = f
	}
	for _, f := range futures {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (c *natsCaller) claim(context.Context) (job, error) {
	m, err := c.jobs.Next(jetstream.FetchMaxWait(claimWait))
	if errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrNoMessages) {
		return job{}, errNoJob
	}
	if err != nil {
		return job{}, err
	}
	return job{payload: m.Data(), complete: m.DoubleAck}, nil
}
