package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"osqueue/client"
)

// jobType is the type of all jobs.
const jobType = "wc"

// countWords returns the counts of wc by file.
func countWords(ctx context.Context, root string) (map[string]int, error) {
	const script = `find "$1" -name '*.go' -type f -print0 | xargs -0 -r wc -w`
	out, err := exec.CommandContext(ctx, "sh", "-c", script, "sh", root).Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", script, err)
	}
	words := make(map[string]int)
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		path, n, err := parseCount(lines.Text())
		if err != nil {
			return nil, err
		}
		if path != "total" { // xargs runs wc several times, so there are several
			words[path] = n
		}
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("there is no .go file in %s", root)
	}
	return words, lines.Err()
}

// parseCount reads a line of wc, "123 /path".
func parseCount(line string) (path string, words int, err error) {
	number, path, found := strings.Cut(strings.TrimSpace(line), " ")
	words, err = strconv.Atoi(number)
	if err != nil || !found {
		return "", 0, fmt.Errorf("%q is not a line of wc", line)
	}
	return path, words, nil
}

// submit enqueues one job for each file and returns their paths by job id. It searches for the
// files itself, independently of find.
func submit(ctx context.Context, c *client.Client, root string) (map[string]string, error) {
	submitted := make(map[string]string)
	var batch []client.NewJob
	flush := func() error {
		_, err := c.EnqueueBatch(ctx, batch)
		batch = batch[:0]
		return err
	}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || filepath.Ext(path) != ".go" {
			return err
		}
		payload, err := json.Marshal(path)
		if err != nil {
			return err
		}
		job := client.NewJob{ID: client.NewID(), Type: jobType, Payload: payload}
		submitted[job.ID] = path
		if batch = append(batch, job); len(batch) == client.MaxBatchJobs {
			return flush()
		}
		return nil
	})
	if err == nil && len(batch) > 0 {
		err = flush()
	}
	if err != nil {
		return nil, fmt.Errorf("submit: %w", err)
	}
	return submitted, nil
}
