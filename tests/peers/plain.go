package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/tests/measure"
)

// plain is a cluster whose callers have a net/http client each, with one connection to the
// leader.
type plain struct{ *osqueue }

func startPlain(p *measure.Place) (queue, error) { return plain{startCluster(p)}, nil }

// callLimit bounds each call over plain HTTP.
const callLimit = 20 * time.Second

func (q plain) newCaller(i, _ int) (caller, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: 1}
	return &plainCaller{
		base: "http://" + q.leader.HTTP, worker: workerName(i),
		http: &http.Client{Transport: transport, Timeout: callLimit},
	}, nil
}

// plainCaller calls the routes of the HTTP API.
type plainCaller struct {
	base, worker string
	http         *http.Client
}

func (c *plainCaller) close() { c.http.CloseIdleConnections() }

type plainJob struct {
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload"`
}

func (c *plainCaller) enqueue(ctx context.Context, payload []byte) error {
	return c.post(ctx, v1.PathJobs, plainJob{jobType, payload}, nil)
}

func (c *plainCaller) enqueueBatch(ctx context.Context, payloads [][]byte) error {
	var body struct {
		Jobs []plainJob `json:"jobs"`
	}
	for _, p := range payloads {
		body.Jobs = append(body.Jobs, plainJob{jobType, p})
	}
	return c.post(ctx, v1.PathJobs+"/batch", body, nil)
}

func (c *plainCaller) claim(ctx context.Context) (job, error) {
	request := struct {
		Worker string `json:"workerId"`
		WaitMs int64  `json:"waitMs"`
	}{c.worker, claimWait.Milliseconds()}
	var got plainClaimed
	if err := c.post(ctx, v1.PathClaim, request, &got); err != nil {
		return job{}, err
	}
	return c.claimed(got)
}

// plainClaimed is a claimed job; without an id there was none.
type plainClaimed struct {
	ID      string          `json:"jobId"`
	Token   uint64          `json:"token"`
	Payload json.RawMessage `json:"payload"`
}

// plainComplete is the report of a completed job.
type plainComplete struct {
	Worker string     `json:"workerId"`
	Token  uint64     `json:"token"`
	Next   *plainNext `json:"claim,omitempty"`
}

// plainNext is the claim in a report.
type plainNext struct {
	RequestID string `json:"requestId"`
}

func (c *plainCaller) claimed(got plainClaimed) (job, error) {
	if got.ID == "" {
		return job{}, errNoJob
	}
	path := v1.PathJobs + "/" + got.ID + "/complete"
	return job{
		payload: got.Payload,
		complete: func(ctx context.Context) error {
			return c.post(ctx, path, plainComplete{Worker: c.worker, Token: got.Token}, nil)
		},
		completeAndClaim: func(ctx context.Context) (job, error) {
			request := plainComplete{Worker: c.worker, Token: got.Token, Next: &plainNext{client.NewID()}}
			var answer struct {
				Claimed []plainClaimed `json:"claimed"`
			}
			if err := c.post(ctx, path, request, &answer); err != nil {
				return job{}, err
			}
			if len(answer.Claimed) == 0 {
				return job{}, errNoJob
			}
			return c.claimed(answer.Claimed[0])
		},
	}, nil
}

// post sends a request with a JSON body and decodes the answer, if into is not nil.
func (c *plainCaller) post(ctx context.Context, path string, body, into any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Prefer", v1.PreferStrict)
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s: %s", path, resp.Status, answer)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}
