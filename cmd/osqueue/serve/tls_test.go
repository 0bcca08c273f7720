package serve

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/cluster"
	"osqueue/internal/auth/certs"
)

// lines are the lines of a log.
type lines chan string

func (l lines) Write(b []byte) (int, error) { l <- string(b); return len(b), nil }

// A node warns of the end of its certificate, and says at that time that it has ended.
func TestTheEndOfACertificateIsLogged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, err := certs.CreateAuthority(dir, certs.CALifetime, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Issue(certs.Request{Kind: certs.Node, Name: "n1", Hosts: []string{"h"}, Lifetime: 3 * time.Second}, time.Now()); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	var o tlsOptions
	o.files = certs.Files{CA: at(certs.CAFile), Cert: at("n1.crt"), Key: at("n1.key")}
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
	dir := t.TempDir()
	a, err := certs.CreateAuthority(dir, certs.CALifetime, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Issue(certs.Request{Kind: certs.Node, Name: "n1", Hosts: []string{"h"}, Lifetime: time.Hour}, time.Now()); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	o := tlsOptions{files: certs.Files{CA: at(certs.CAFile), Cert: at("n1.crt"), Key: at("n1.key")}, caKey: at("ca.key")}
	for mode, warnings := range map[os.FileMode]int{0o600: 0, 0o640: 0, 0o644: 2} {
		if err := errors.Join(os.Chmod(o.files.Key, mode), os.Chmod(o.caKey, mode)); err != nil {
			t.Fatal(err)
		}
		out := make(lines, 10)
		if err := o.load(&cluster.Config{Name: "n1", Logger: hclog.New(&hclog.LoggerOptions{Output: out})}); err != nil || len(out) != warnings {
			t.Errorf("%v: %d warnings, want %d (%v)", mode, len(out), warnings, err)
		}
	}
}
