package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// evidence has all data of a finished run.
type evidence struct {
	words     map[string]int    // by path, as wc says
	submitted map[string]string // paths by job id
	jobs      []v1.Job          // as the API lists them
	completed uint64            // how many completions the cluster has counted
	claims    []claim           // as the workers recorded them
}

// read asks the cluster for all jobs, page by page.
func (e *evidence) read(ctx context.Context, c *client.Client) error {
	for job, err := range c.Jobs(ctx, client.ListOptions{Statuses: []string{v1.StatusAll}, PageSize: 500}) {
		if err != nil {
			return fmt.Errorf("read the results: %w", err)
		}
		e.jobs = append(e.jobs, job)
	}
	stats, err := c.Stats(ctx)
	e.completed = stats.CompletedTotal
	return err
}

// shownFaults bounds the list of differences: if all jobs have the same fault, a few lines are
// enough.
const shownFaults = 10

// check returns every difference.
func (e *evidence) check() error {
	faults := slices.Concat(e.checkFiles(), e.checkJobs(), e.checkClaims())
	if want, got := e.wcSum(), e.jobSum(); want != got {
		faults = append(faults, fmt.Errorf("the jobs counted %d words, wc %d", got, want))
	}
	if n := len(faults); n > shownFaults {
		faults = append(faults[:shownFaults], fmt.Errorf("… and %d differences more", n-shownFaults))
	}
	return errors.Join(faults...)
}

// checkFiles compares the submitted files with the output of find.
func (e *evidence) checkFiles() (faults []error) {
	found := make(map[string]bool)
	for _, path := range e.submitted {
		found[path] = true
		if _, ok := e.words[path]; !ok {
			faults = append(faults, fmt.Errorf("find has not found %s", path))
		}
	}
	if len(found) != len(e.words) {
		faults = append(faults, fmt.Errorf("jobs were submitted for %d files, find has found %d", len(found), len(e.words)))
	}
	return faults
}

// checkJobs compares the jobs of the cluster with the submitted ones, and their results with
// wc.
func (e *evidence) checkJobs() (faults []error) {
	listed := make(map[string]bool)
	for _, job := range e.jobs {
		if listed[job.ID] {
			faults = append(faults, fmt.Errorf("job %s is listed twice", job.ID))
		}
		listed[job.ID] = true
		if err := e.checkJob(job); err != nil {
			faults = append(faults, fmt.Errorf("job %s: %w", job.ID, err))
		}
	}
	for id, path := range e.submitted {
		if !listed[id] {
			faults = append(faults, fmt.Errorf("job %s (%s) is missing", id, path))
		}
	}
	if e.completed != uint64(len(e.submitted)) {
		faults = append(faults, fmt.Errorf("the cluster counted %d completions of %d jobs", e.completed, len(e.submitted)))
	}
	return faults
}

func (e *evidence) checkJob(job v1.Job) error {
	path, ok := e.submitted[job.ID]
	if !ok {
		return errors.New("was never submitted")
	}
	if job.Status != v1.StatusCompleted {
		return fmt.Errorf("is %s (%s)", job.Status, job.LastError)
	}
	of, words, err := jobResult(job)
	if err != nil {
		return err
	}
	if of != path || words != e.words[path] {
		return fmt.Errorf("counted %d words in %s; wc %d in %s", words, of, e.words[path], path)
	}
	return nil
}

// jobResult reads a job's result: the line that wc wrote, as a JSON string.
func jobResult(job v1.Job) (path string, words int, err error) {
	var line string
	if err := json.Unmarshal(job.Result, &line); err != nil {
		return "", 0, fmt.Errorf("result %s: %w", job.Result, err)
	}
	return parseCount(line)
}

func (e *evidence) wcSum() (sum int) {
	for _, n := range e.words {
		sum += n
	}
	return sum
}

func (e *evidence) jobSum() (sum int) {
	for _, job := range e.jobs {
		_, n, _ := jobResult(job) // 0 if it has none; checkJob tells
		sum += n
	}
	return sum
}
