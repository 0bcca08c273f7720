package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	v1 "osqueue/api/v1"
	"osqueue/client"
)

// Enqueue a job and wait for its result; tell a job that is surely not there
// from one that may be.
func Example() {
	node := exampleNode() // in its place: three nodes of a cluster
	defer node.Close()
	c, err := client.New(client.Config{Servers: []string{node.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	ctx := context.Background()
	job := client.NewJob{ID: client.NewID(), Type: "wc", Payload: jsontext.Value(`"three little words"`)}
	got, err := c.Enqueue(ctx, job)
	var failed *client.Error
	if errors.As(err, &failed) && failed.Committed == client.CommittedUnknown {
		fmt.Println("enqueue the same job again later; its id makes that safe")
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	done, err := c.WaitJob(ctx, got.JobID, time.Minute)
	fmt.Println(done.Status, string(done.Result), err)
	// Output: completed 3 <nil>
}

// exampleNode knows one job, which has completed.
func exampleNode() *httptest.Server {
	answers := map[string]string{
		v1.PathStatus: `{"state":"leader","term":1}`,
		v1.PathJobs:   `{"jobId":"j1","lsn":"1-5"}`,
		"/v1/jobs/j1": `{"id":"j1","status":"completed","result":3}`,
	}
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, answers[r.URL.Path])
	}))
}
