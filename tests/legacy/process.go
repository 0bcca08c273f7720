package legacy

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"osqueue/tests/cluster"
)

// env is the variable that holds the Config of a broker process.
const env = "OSQUEUE_TEST_ORIGINAL"

// Main turns the process into a broker if it was started as one. TestMain calls it first:
// a test's broker is the test's own program.
func Main() {
	text, is := os.LookupEnv(env)
	if !is {
		return
	}
	var cfg Config
	err := json.Unmarshal([]byte(text), &cfg)
	if err == nil {
		err = Serve(context.Background(), cfg, func() { fmt.Fprintln(os.Stderr, "serving at", cfg.Address) })
	}
	fmt.Fprintln(os.Stderr, "the broker ends:", err)
	os.Exit(1)
}

// Process is a broker in a process of its own.
type Process struct {
	Address string

	tb   cluster.TB
	cmd  *exec.Cmd
	log  string
	done chan struct{}
	once sync.Once
}

// Start starts a broker. It is killed when the test ends.
func Start(tb cluster.TB, cfg Config) *Process {
	tb.Helper()
	if cfg.Address == "" {
		cfg.Address = cluster.FreshNet() + ".9:8080"
	}
	text, err := json.Marshal(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	p := &Process{Address: cfg.Address, tb: tb, log: filepath.Join(tb.TempDir(), "log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		tb.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), env+"="+string(text))
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	tb.Cleanup(func() {
		p.Kill()
		if tb.Failed() {
			tb.Logf("log of the legacy broker at %s:\n%s", p.Address, p.Log())
		}
	})
	return p
}

// Kill ends the broker with SIGKILL.
func (p *Process) Kill() {
	p.once.Do(func() { _ = p.cmd.Process.Kill() })
	<-p.done
}

// Pause stops the process; Continue wakes it.
func (p *Process) Pause() { p.signal(syscall.SIGSTOP) }

// Continue wakes a paused process.
func (p *Process) Continue() { p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) {
	if err := p.cmd.Process.Signal(s); err != nil {
		p.tb.Fatalf("signal %v to the legacy broker: %v", s, err)
	}
}

// Running reports whether the process is alive.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Log returns the output of the broker.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// WaitServing waits until the broker accepts requests.
func (p *Process) WaitServing() {
	p.tb.Helper()
	err := cluster.Poll(cluster.LeaderTimeout, func() error {
		return Call(context.Background(), http.MethodGet, p.Address, "/healthz", nil, nil)
	})
	if err != nil {
		p.tb.Fatalf("the legacy broker does not serve: %v\n%s", err, p.Log())
	}
}

// WaitEnd waits for the end of the process and returns its output.
func (p *Process) WaitEnd() string {
	p.tb.Helper()
	select {
	case <-p.done:
	case <-time.After(cluster.LeaderTimeout):
		p.tb.Fatalf("the legacy broker at %s does not end", p.Address)
	}
	return p.Log()
}

// client keeps no connections, so that it does not reuse one to a killed broker.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}

// StatusError is an answer with a status other than 2xx.
type StatusError struct {
	Status int
	Body   string
}

// Error implements error.
func (e *StatusError) Error() string { return fmt.Sprintf("%d: %s", e.Status, e.Body) }

// Call sends a request as the legacy REST client does: every request has a content type,
// and every 2xx is a success. in and out may be nil.
func Call(ctx context.Context, method, address, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = strings.NewReader(string(text))
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return &StatusError{Status: resp.StatusCode, Body: string(text)}
	case resp.StatusCode == http.StatusNoContent || out == nil:
		return nil
	}
	return json.Unmarshal(text, out)
}
