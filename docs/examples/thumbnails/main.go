// Thumbnails makes small copies of pictures, each in a job of its own. It is an example of a
// program that is both a producer and a worker.
//
//	thumbnails worker
//	thumbnails submit PICTURES THUMBNAILS
//
// Workers and submitter must see the same directories. A thumbnail appears under its name only
// when it is complete, and making it twice gives the same file. So it does no harm if a worker
// dies after the work and before its report.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"osqueue/client"
	"osqueue/client/worker"
)

// width of a thumbnail, in pixels; pictures that are not wider are not scaled.
const width = 160

// picture is a job's payload: the picture to read, and the thumbnail to write.
type picture struct {
	From string `json:"from"`
	To   string `json:"to"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "thumbnails:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("use: thumbnails worker | thumbnails submit PICTURES THUMBNAILS")

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	servers := os.Getenv("OSQUEUE_SERVERS")
	if servers == "" {
		servers = "127.0.0.1:8080,127.0.0.1:8081,127.0.0.1:8082"
	}
	c, err := client.New(client.Config{Servers: strings.Split(servers, ",")})
	if err != nil {
		return err
	}
	defer c.Close()
	switch {
	case len(args) == 1 && args[0] == "worker":
		return work(ctx, c)
	case len(args) == 3 && args[0] == "submit":
		return submit(ctx, c, args[1], args[2])
	}
	return errUsage
}

// work makes thumbnails until ctx ends.
func work(ctx context.Context, c *client.Client) error {
	w, err := worker.New(c, worker.Config{})
	if err != nil {
		return err
	}
	w.Handle("thumbnail", worker.JSON(func(_ context.Context, _ worker.Job, p picture) (size, error) {
		return makeThumbnail(p)
	}))
	return w.Run(ctx)
}

// submit enqueues a job for each picture in a directory and waits for all.
func submit(ctx context.Context, c *client.Client, from, to string) error {
	jobs, err := jobsOf(from, to)
	if err != nil {
		return err
	}
	made, err := c.EnqueueBatch(ctx, jobs)
	if err != nil {
		return err
	}
	var failed error
	for _, id := range made.JobIDs {
		job, err := c.WaitJob(ctx, id, 10*time.Minute)
		if end := (*client.JobError)(nil); errors.As(err, &end) {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", job.Payload, end))
		} else if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(os.Stdout, job.Status, string(job.Result)); err != nil {
			return err
		}
	}
	return failed
}

// jobsOf returns the jobs for the files of a directory. The paths are absolute, because a
// worker may have been started in another directory.
func jobsOf(from, to string) ([]client.NewJob, error) {
	entries, err := os.ReadDir(from)
	if err != nil {
		return nil, err
	}
	if from, err = filepath.Abs(from); err != nil {
		return nil, err
	}
	if to, err = filepath.Abs(to); err != nil {
		return nil, err
	}
	var jobs []client.NewJob
	for _, e := range entries {
		payload, err := json.Marshal(picture{From: filepath.Join(from, e.Name()), To: filepath.Join(to, e.Name()+".png")})
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, client.NewJob{Type: "thumbnail", Payload: payload, Timeout: time.Minute})
	}
	return jobs, nil
}
