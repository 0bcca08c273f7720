package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"osqueue/tests/cluster"
)

// profile is one that a broker is taking of itself.
type profile struct {
	of   string
	path string
	done chan struct{}
	err  error // once done
}

// startProfiles begins to profile the leader and one follower, if that is asked
// for, for as long as one measurement takes. end waits and reports.
func (b *bench) startProfiles(section string, br *brokers) (end func(), err error) {
	var all []*profile
	end = func() {
		for _, p := range all {
			p.report(b.report)
		}
	}
	if b.profile == "" {
		return end, nil
	}
	if err := os.MkdirAll(b.profile, 0o700); err != nil {
		return end, err
	}
	for _, of := range []struct {
		name string
		node *cluster.Node
	}{{"leader", br.leader}, {"follower", br.Follower()}} {
		p := startProfile(of.node, b.duration, filepath.Join(b.profile, section+"-"+of.name+".pprof"))
		p.of = of.name
		all = append(all, p)
	}
	return end, nil
}

// startProfile has a node profile itself for some whole seconds.
func startProfile(n *cluster.Node, d time.Duration, path string) *profile {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", n.HTTP, max(1, int(d.Seconds())))
	p := &profile{path: path, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = download(url, path)
	}()
	return p
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

// report waits for the profile and prints where the time went.
func (p *profile) report(r *report) {
	<-p.done
	if p.err != nil {
		r.remark(fmt.Sprintf("no profile of the %s: %v", p.of, p.err))
		return
	}
	r.remark(fmt.Sprintf("profile of the %s, in %s", p.of, p.path))
	r.remark(p.top("itself", "-nodecount=12"))
	r.remark(p.top("with what it calls", "-cum", "-nodecount=30", "-show="+duties))
}

// duties are the functions in the second table: those of packages that show the purpose of the
// time.
const duties = `^(osqueue|github.com/hashicorp|go.etcd.io|net/http|runtime.gcBgMarkWorker)`

// top returns a table of functions, made by the go tool.
func (p *profile) top(title string, flags ...string) string {
	args := slices.Concat([]string{"tool", "pprof", "-top"}, flags, []string{p.path})
	out, err := exec.Command("go", args...).Output()
	_, table, found := strings.Cut(string(out), "flat%")
	if err != nil || !found {
		return "  (see it with: go tool pprof " + p.path + ")"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "  the time that a function takes %s:\n", title)
	for _, line := range strings.Split(strings.TrimSpace(table), "\n")[1:] {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	return b.String()
}
