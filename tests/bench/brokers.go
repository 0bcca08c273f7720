package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"osqueue/tests/cluster"
)

// errGaveUp ends a section from within the harness.
var errGaveUp = errors.New("gave up")

// place is where a section's cluster lives; it is the harness's TB.
type place struct {
	dir     string
	cleanup []func()
	failure string
}

// Helper implements cluster.TB.
func (p *place) Helper() {}

// Logf implements cluster.TB.
func (p *place) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Fatal implements cluster.TB.
func (p *place) Fatal(args ...any) {
	p.failure = fmt.Sprint(args...)
	panic(errGaveUp)
}

// Fatalf implements cluster.TB.
func (p *place) Fatalf(format string, args ...any) { p.Fatal(fmt.Sprintf(format, args...)) }

// Failed implements cluster.TB.
func (p *place) Failed() bool { return p.failure != "" }

// TempDir implements cluster.TB.
func (p *place) TempDir() string { return p.dir }

// Cleanup implements cluster.TB.
func (p *place) Cleanup(fn func()) { p.cleanup = append(p.cleanup, fn) }

// withBrokers runs measure on a fresh cluster of three, and ends it.
func (b *bench) withBrokers(section string, measure func(c *cluster.Cluster, leader string) error) (err error) {
	dir, err := os.MkdirTemp("", "osqueue-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p := &place{dir: dir}
	defer func() {
		for i := len(p.cleanup) - 1; i >= 0; i-- {
			p.cleanup[i]()
		}
	}()
	defer func() {
		if r := recover(); r == errGaveUp { //nolint:errorlint // it is panicked as it is
			err = errors.New(p.failure)
		} else if r != nil {
			panic(r)
		}
	}()
	flags := b.serve
	if b.profile != "" {
		flags = append(slices.Clip(flags), "--pprof-addr", "127.0.0.1:0")
	}
	c := cluster.Start(p, cluster.Options{Bucket: b.bucket, Flags: flags})
	leader := c.WaitLeader()
	stop, err := b.startProfile(section, leader)
	if err != nil {
		return err
	}
	defer stop()
	return measure(c, leader.HTTP)
}

// startProfile begins to profile a node, if that is asked for. stop waits for
// the profile's end.
func (b *bench) startProfile(section string, n *cluster.Node) (stop func(), err error) {
	if b.profile == "" {
		return func() {}, nil
	}
	_, rest, ok := strings.Cut(n.Log(), "serving profiles")
	_, rest, found := strings.Cut(rest, "127.0.0.1:")
	if !ok || !found {
		return nil, fmt.Errorf("%s does not say where its profiles are", n.Name)
	}
	port := rest[:strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })]
	if err := os.MkdirAll(b.profile, 0o700); err != nil {
		return nil, err
	}
	seconds := max(1, int(b.duration.Seconds()))
	url := fmt.Sprintf("http://127.0.0.1:%s/debug/pprof/profile?seconds=%d", port, seconds)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := download(url, filepath.Join(b.profile, section+".pprof")); err != nil {
			fmt.Fprintln(os.Stderr, "bench: profile:", err)
		}
	}()
	return func() { <-done }, nil
}

func download(url, path string) error {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, resp.Body)
	return errors.Join(err, f.Close())
}
