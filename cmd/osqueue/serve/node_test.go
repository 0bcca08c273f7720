package serve

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	"osqueue/api"
	"osqueue/cluster"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/auth/certs"
	"osqueue/internal/auth/enroll"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lines are the lines of a log.
type lines chan string

func (l lines) Write(b []byte) (int, error) { l <- string(b); return len(b), nil }

// nodeCertificate makes the files of a CA and of node n1.
func nodeCertificate(t *testing.T, lifetime time.Duration) tlsOptions {
	t.Helper()
	dir := t.TempDir()
	a, err := certs.CreateAuthority(dir, certs.CALifetime, time.Now())
	check(t, err)
	if _, err := a.Issue(certs.Request{Kind: certs.Node, Name: "n1", Hosts: []string{"h"}, Lifetime: lifetime}, time.Now()); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	return tlsOptions{files: certs.Files{CA: at(certs.CAFile), Cert: at("n1.crt"), Key: at("n1.key")}, caKey: at("ca.key")}
}

// A node warns of the end of its certificate, and says at that time that it has ended.
func TestTheEndOfACertificateIsLogged(t *testing.T) {
	t.Parallel()
	o := nodeCertificate(t, 3*time.Second)
	var err error
	if o.identity, err = certs.Load(o.files, func(error) {}); err != nil {
		t.Fatal(err)
	}
	out := make(lines, 10)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { o.watchExpiry(ctx, hclog.New(&hclog.LoggerOptions{Output: out})) })
	defer wg.Wait()
	defer cancel()
	for _, want := range []string{"ends soon", "has expired"} {
		select {
		case line := <-out:
			if !strings.Contains(line, want) {
				t.Errorf("the log has %q, want %q", line, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("the log has no line with %q", want)
		}
	}
}

// A node warns if others can read its key, or that of the CA.
func TestKeysThatOthersCanRead(t *testing.T) {
	t.Parallel()
	o := nodeCertificate(t, time.Hour)
	for mode, warnings := range map[os.FileMode]int{0o600: 0, 0o640: 0, 0o644: 2} {
		check(t, errors.Join(os.Chmod(o.files.Key, mode), os.Chmod(o.caKey, mode)))
		out := make(lines, 10)
		cfg := cluster.DefaultConfig()
		cfg.Name, cfg.Logger = "n1", hclog.New(&hclog.LoggerOptions{Output: out})
		if err := o.load(&cfg); err != nil || len(out) != warnings {
			t.Errorf("%v: %d warnings, want %d (%v)", mode, len(out), warnings, err)
		}
	}
}

// rightsIn are the rights of an operation in the document: one, or a list.
type rightsIn []string

func (r *rightsIn) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*r = rightsIn{n.Value}
		return nil
	}
	return n.Decode((*[]string)(r))
}

// The document describes every route under /cluster/v1/, with its right, and no other one.
func TestClusterDocumentHasTheRoutes(t *testing.T) {
	var document struct {
		Paths map[string]map[string]struct {
			ID      string   `yaml:"operationId"`
			Right   rightsIn `yaml:"x-osqueue-right"`
			Summary string
		}
	}
	check(t, yaml.Unmarshal(api.ClusterOpenAPI, &document))
	s := &server{node: new(cluster.Node), enroll: enroll.New(enroll.Config{})}
	var served []string
	for _, r := range s.clusterRoutes() {
		served = append(served, r.Pattern)
		op := document.Paths[r.Path()][strings.ToLower(r.Method())]
		if got := strings.Join(op.Right, ","); got != r.Right.String() || got == "" {
			t.Errorf("%s: x-osqueue-right is %q, and the route needs %q", r.Pattern, got, r.Right)
		}
	}
	ids := make(map[string]bool)
	for path, operations := range document.Paths {
		for method, op := range operations {
			if pattern := strings.ToUpper(method) + " " + path; !slices.Contains(served, pattern) {
				t.Errorf("%s is described and not served", pattern)
			}
			if ids[op.ID] || op.ID == "" || op.Summary == "" {
				t.Errorf("%s %s has operationId %q and summary %q", method, path, op.ID, op.Summary)
			}
			ids[op.ID] = true
		}
	}
}

// blockedLog is a log on a disk that hangs.
type blockedLog struct{ release chan struct{} }

func (b blockedLog) Write(p []byte) (int, error) {
	<-b.release
	return len(p), nil
}

func TestExitGuardEndsAProcessThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var took time.Duration
		code := -1
		b := blockedLog{make(chan struct{})}
		g := newExitGuard(hclog.New(&hclog.LoggerOptions{Output: b}), func(c int) { took, code = time.Since(began), c })
		g.within(10 * time.Second)
		g.within(900 * time.Millisecond) // what must stop stops, also in the middle of a graceful stop
		g.within(10 * time.Second)
		time.Sleep(time.Second)
		synctest.Wait()
		if code != view.ExitFailure || took > time.Second {
			t.Errorf("exit code %d after %v", code, took)
		}
		close(b.release)
	})
}

func TestExitGuardLetsAnOrderlyEndBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newExitGuard(hclog.NewNullLogger(), func(int) { t.Error("the process was ended") })
		g.stop()
		g.within(time.Second)
		g.stop()
		time.Sleep(time.Minute)
	})
}

func TestGCPercent(t *testing.T) {
	const mib = 1 << 20
	for _, test := range []struct {
		live, inflight, target int64
		want                   int
	}{
		{0, 0, 128 * mib, mostPercent},
		{4 * mib, 0, 128 * mib, mostPercent},
		{32 * mib, 0, 128 * mib, 300},
		{64 * mib, 0, 128 * mib, 100},
		{100 * mib, 0, 128 * mib, 100},
		{1000 * mib, 0, 128 * mib, 100},
		{10 * mib, 0, 0, 100},
		{160 * mib, 128 * mib, 96 * mib, 20},
		{160 * mib, 200 * mib, 96 * mib, 20}, // some are collected already
		{1000 * mib, 250 * mib, 96 * mib, 50},
		{320 * mib, 150 * mib, 96 * mib, 10}, // the least growth
		{80_000 * mib, 80_000 * mib, 96 * mib, 10},
	} {
		if got := gcPercent(test.live, test.inflight, test.target); got != test.want {
			t.Errorf("gcPercent(%d, %d, %d) = %d, want %d", test.live, test.inflight, test.target, got, test.want)
		}
	}
}

// Memory is released once after each load, and not for the little that an idle node
// allocates.
func TestCollectorGivesBackOnceAfterALoad(t *testing.T) {
	c := newCollector(defaultMemoryTarget, nil)
	allocated, live := int64(0), int64(0)
	looks := func(n int, each int64) (released int) {
		for range n {
			allocated += each
			if c.idle(allocated, live) {
				released++
			}
		}
		return released
	}
	if got := looks(20, 0); got != 0 {
		t.Errorf("before the first load: %d times", got)
	}
	for range 2 {
		if got := looks(3, 100<<20); got != 0 {
			t.Errorf("during a load: %d times", got)
		}
		if got := looks(quietLooks-1, 1000); got != 0 {
			t.Errorf("in a short break: %d times", got)
		}
		if got := looks(100, 1000); got != 1 {
			t.Errorf("after a load: %d times", got)
		}
	}
	live = 1 << 30
	looks(2, 100<<20)
	if got := looks(100, 1000); got != 0 {
		t.Errorf("after a load that is small beside the heap: %d times", got)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
