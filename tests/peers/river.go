package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"osqueue/tests/cluster"
	"osqueue/tests/measure"
)

// postgresUser is the account that runs PostgreSQL if this command runs as root, which
// PostgreSQL refuses.
const postgresUser = "postgres"

// postgresBinary returns a program of PostgreSQL. Debian has them outside of PATH.
func postgresBinary(name string) (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name) // the pattern is valid
	slices.Sort(found)
	slices.Reverse(found)
	return program("run make peers as root, or install postgresql", append(found, name)...)
}

func checkPostgres() error {
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := postgresBinary(name); err != nil {
			return err
		}
	}
	if _, err := postgresAccount(); err != nil {
		return err
	}
	return nil
}

// postgresAccount returns the account for PostgreSQL's processes, or nil for the own one.
func postgresAccount() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(postgresUser)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

// The connections of River: PostgreSQL has a process for each.
const (
	riverConns  = 64
	maxServers  = 100 // connections that PostgreSQL accepts
	riverFetch  = time.Millisecond
	riverPoll   = 100 * time.Millisecond
	riverEvents = 200_000
)

// riverQueue is one PostgreSQL with River's tables.
type riverQueue struct {
	pid    int
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
}

func startRiver(p *measure.Place) (queue, error) {
	account, err := postgresAccount()
	if err != nil {
		return nil, err
	}
	data, err := createDatabase(p, account)
	if err != nil {
		return nil, err
	}
	server, err := postgresBinary("postgres")
	if err != nil {
		return nil, err
	}
	host := cluster.FreshNet() + ".1"
	cmd := exec.Command(server, "-D", data, "-c", "listen_addresses="+host, "-c", "port=5432", "-c", "unix_socket_directories=",
		"-c", fmt.Sprintf("max_connections=%d", maxServers))
	cmd.SysProcAttr, cmd.Dir = &syscall.SysProcAttr{Credential: account}, data
	q := new(riverQueue)
	if q.pid, err = launch(p, "postgres", cmd); err != nil {
		return nil, err
	}
	return q, q.connect(p, host)
}

// createDatabase creates the files of a database that the account owns.
func createDatabase(p *measure.Place, account *syscall.Credential) (dir string, err error) {
	dir = filepath.Join(p.Dir, "postgres")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if account != nil {
		// The place is of root; the account only passes through it.
		if err := os.Chmod(p.Dir, 0o711); err != nil {
			return "", err
		}
		if err := os.Chown(dir, int(account.Uid), int(account.Gid)); err != nil {
			return "", err
		}
	}
	initdb, err := postgresBinary("initdb")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, initdb, "-D", dir, "-U", postgresUser, "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C")
	cmd.SysProcAttr, cmd.Dir = &syscall.SysProcAttr{Credential: account}, dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return dir, nil
}

// connect opens the pool and creates River's tables.
func (q *riverQueue) connect(p *measure.Place, host string) error {
	config, err := pgxpool.ParseConfig(fmt.Sprintf("host=%s port=5432 user=%s dbname=postgres sslmode=disable", host, postgresUser))
	if err != nil {
		return err
	}
	config.MaxConns = riverConns
	if q.pool, err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
		return err
	}
	p.Cleanup(q.pool.Close)
	err = eventually("reach PostgreSQL", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		return q.pool.Ping(ctx)
	})
	if err != nil {
		return err
	}
	driver := riverpgxv5.New(q.pool)
	quiet := slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	q.client, err = river.NewClient(driver, &river.Config{Logger: quiet})
	return err
}

func (q *riverQueue) roles() []role { return []role{{name: "server", pids: []int{q.pid}}} }

func (q *riverQueue) newCaller(int, int) (caller, error) { return &riverCaller{q.client}, nil }

// riverArgs are the arguments of a job.
type riverArgs struct {
	Payload json.RawMessage `json:"p"`
}

// Kind implements river.JobArgs.
func (riverArgs) Kind() string { return jobType }

// riverCaller uses the client of River, and its pool of connections, with all other callers.
type riverCaller struct{ client *river.Client[pgx.Tx] }

func (c *riverCaller) close() {}

func (c *riverCaller) enqueue(ctx context.Context, payload []byte) error {
	_, err := c.client.Insert(ctx, riverArgs{payload}, nil)
	return err
}

func (c *riverCaller) enqueueBatch(ctx context.Context, payloads [][]byte) error {
	params := make([]river.InsertManyParams, len(payloads))
	for i, p := range payloads {
		params[i] = river.InsertManyParams{Args: riverArgs{p}}
	}
	_, err := c.client.InsertManyFast(ctx, params)
	return err
}

// riverWorker calls the handler for each job.
type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	taken func([]byte)
}

// Work implements river.Worker.
func (w *riverWorker) Work(_ context.Context, j *river.Job[riverArgs]) error {
	w.taken(j.Args.Payload)
	return nil
}

// work runs a client of River with workers. A job counts as completed when the row says so.
func (q *riverQueue) work(ctx context.Context, workers int, h handlers) error {
	known := river.NewWorkers()
	river.AddWorker(known, &riverWorker{taken: h.taken})
	client, err := river.NewClient(riverpgxv5.New(q.pool), &river.Config{
		Logger: slog.New(slog.DiscardHandler), Workers: known, FetchCooldown: riverFetch, FetchPollInterval: riverPoll,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
	})
	if err != nil {
		return err
	}
	events, unsubscribe := client.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: riverEvents, Kinds: []river.EventKind{river.EventKindJobCompleted},
	})
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		for range events {
			h.completed()
		}
	}()
	// The context of Start ends the client at once. It has to complete its jobs first.
	if err := client.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	err = client.Stop(stop)
	unsubscribe()
	<-counted
	return err
}
