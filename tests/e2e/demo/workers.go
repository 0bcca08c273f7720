package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// claim is one line of "osqueue worker --json": a claim that has ended.
type claim struct {
	Worker    string         `json:"worker"`
	JobID     string         `json:"jobId"`
	Token     uint64         `json:"token"`
	Attempt   int            `json:"attempt"`
	Outcome   string         `json:"outcome"`
	StartedAt int64          `json:"startedAt"` // ms
	EndedAt   int64          `json:"endedAt"`   // ms; the cluster had answered by then
	Result    jsontext.Value `json:"result"`
}

const outcomeCompleted = "completed"

// execSpec needs no shell: xargs removes the quotes of the JSON string.
const execSpec = jobType + "=xargs wc -w"

// workerSet are the worker processes. Each writes its record to a file.
type workerSet struct {
	processes []*process
	records   []string
}

func startWorkers(o options, servers []string, dir string, fail func(error)) (*workerSet, error) {
	s := &workerSet{}
	for i := range o.workers {
		name := fmt.Sprintf("demo-%d", i+1)
		if err := s.start(o.binary, name, servers, dir, fail); err != nil {
			return nil, errors.Join(err, s.stop())
		}
	}
	say("%d worker processes run %q", o.workers, execSpec)
	return s, nil
}

func (s *workerSet) start(binary, name string, servers []string, dir string, fail func(error)) error {
	record, err := openLog(filepath.Join(dir, name+".json"))
	if err != nil {
		return err
	}
	defer record.Close()
	log, err := openLog(filepath.Join(dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(binary, "worker", "--name", name, "--exec", execSpec, "--json", "--servers", strings.Join(servers, ","))
	cmd.Stdout, cmd.Stderr = record, log
	p, err := start(name, cmd, fail)
	if err != nil {
		return err
	}
	s.processes, s.records = append(s.processes, p), append(s.records, record.Name())
	return nil
}

func (s *workerSet) stop() error {
	var errs []error
	for _, p := range s.processes {
		errs = append(errs, p.stop())
	}
	return errors.Join(errs...)
}

// claims reads the records of all workers.
func (s *workerSet) claims() ([]claim, error) {
	var all []claim
	for _, path := range s.records {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for line := range bytes.Lines(data) {
			var c claim
			if err := json.Unmarshal(line, &c); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			all = append(all, c)
		}
	}
	return all, nil
}
