package regression

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"osqueue/client"
	"osqueue/internal/auth/certs"
	"osqueue/tests/cluster"
)

// certificatesEnd is the life of the certificates of this test: they are renewed after 12 s.
const certificatesEnd = 18 * time.Second

// All certificates end, are renewed by the nodes themselves, and the CA is replaced, under a load
// of up to 1000 jobs/s on kept connections and of requests on new ones. No request fails, and
// none is repeated.
func TestCertificatesAreRenewedUnderLoad(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, cluster.Options{TLS: true})
	a, err := certs.LoadAuthority(c.CertDir())
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range c.Nodes {
		if _, err := a.Renew(n.Name, certificatesEnd, time.Now()); err != nil {
			t.Fatal(err)
		}
		if i == 0 { // the only one with the key of the CA
			n.Flags = append(n.Flags, "--tls-ca-key", filepath.Join(c.CertDir(), "ca.key"))
		}
		n.Start()
	}
	c.WaitLeader()
	c.Eventually(cluster.LeaderTimeout, "the token", func() error { _, err := c.Client.Stats(c.Context(time.Second)); return err })

	trust := followCA(filepath.Join(c.CertDir(), certs.CAFile))
	kept, err := client.New(client.Config{Servers: c.Servers(), Token: c.Token(), TLS: trust, RetryFor: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	ctx, end := context.WithCancel(c.Context(patience))
	defer end()
	var jobs, requests atomic.Int64
	failed := make(chan error, 2)
	load := func(each time.Duration, count *atomic.Int64, call func(ctx context.Context, i int) error) {
		limit := rate.NewLimiter(rate.Every(each), 1)
		for i := 0; limit.Wait(ctx) == nil; i++ {
			if err := call(ctx, i); err != nil && ctx.Err() == nil {
				failed <- err
				return
			}
			count.Add(1)
		}
		failed <- nil
	}
	go load(time.Millisecond, &jobs, func(ctx context.Context, _ int) error {
		_, err := kept.Enqueue(ctx, client.NewJob{Type: "t"})
		return err
	})
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: trust}}
	go load(100*time.Millisecond, &requests, func(ctx context.Context, i int) error {
		n := c.Nodes[i%len(c.Nodes)] // two of three forward it to the leader
		return enqueueAt(ctx, fresh, n.HTTP, c.Token())
	})

	// until waits until the certificate of each node on the disk fulfills a condition.
	until := func(what string, good func(*x509.Certificate) bool) {
		t.Helper()
		c.Eventually(patience, what, func() error {
			select {
			case err := <-failed:
				t.Fatalf("a request failed: %v (after %d jobs and %d requests)", err, jobs.Load(), requests.Load())
			default:
			}
			for _, n := range c.Nodes {
				list, err := certs.ReadList(filepath.Join(c.CertDir(), n.Name+".crt"))
				if err != nil || !good(list[0]) {
					return fmt.Errorf("%s: %w", n.Name, errors.Join(err, errOld))
				}
			}
			return nil
		})
	}
	began := time.Now()
	until("the renewal of all certificates", func(c *x509.Certificate) bool { return certs.IssuedAt(c).After(began) })
	if err := a.Rotate(certs.CALifetime, time.Now()); err != nil {
		t.Fatal(err)
	}
	c.TrustCA()
	newest := a.Certificates()[0]
	until("certificates of the new CA", func(c *x509.Certificate) bool { return c.CheckSignatureFrom(newest) == nil })
	if err := a.Retire(); err != nil {
		t.Fatal(err)
	}
	c.TrustCA()
	began = time.Now()
	until("renewals by the new CA", func(c *x509.Certificate) bool { return certs.IssuedAt(c).After(began) })
	end()
	for range 2 {
		if err := <-failed; err != nil {
			t.Errorf("a request failed: %v", err)
		}
	}
	t.Logf("%d jobs on kept connections, %d requests on new ones", jobs.Load(), requests.Load())
}

var errOld = errors.New("the certificate is an old one")

// followCA returns the configuration of a client that reads the CA's certificates at each
// connection.
func followCA(file string) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // VerifyConnection does it
		VerifyConnection: func(s tls.ConnectionState) error {
			list, err := certs.ReadList(file)
			if err != nil {
				return err
			}
			pool := x509.NewCertPool()
			for _, c := range list {
				pool.AddCert(c)
			}
			_, err = s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: pool})
			return err
		},
	}
}

// enqueueAt enqueues a job with one HTTP request.
func enqueueAt(ctx context.Context, hc *http.Client, server, token string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+server+"/v1/jobs", strings.NewReader(`{"type":"t"}`))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := hc.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s: %s", server, resp.Status, text)
	}
	return err
}

// A new node gets its certificate with a join token and joins, although no other node has it in
// its --peers. The key of the CA is on no node: the command of the operator signs.
func TestANodeJoinsWithAToken(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, cluster.Options{TLS: true, Nodes: 4})
	old, fresh := c.Nodes[:3], c.Nodes[3]
	var peers []string
	for _, n := range old {
		peers = append(peers, n.Name+"="+n.HTTP)
	}
	for _, n := range old {
		n.Flags = append(n.Flags, "--peers", strings.Join(peers, ","))
		n.Start()
	}
	c.WaitLeader()
	c.Eventually(cluster.LeaderTimeout, "the token", func() error { _, err := c.Client.Stats(c.Context(time.Second)); return err })
	for _, suffix := range []string{".crt", ".key"} {
		if err := os.Remove(filepath.Join(c.CertDir(), fresh.Name+suffix)); err != nil {
			t.Fatal(err)
		}
	}
	binary, err := cluster.Binary()
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte(c.Token()), 0o600); err != nil {
		t.Fatal(err)
	}
	host, _, _ := strings.Cut(fresh.HTTP, ":")
	operator := exec.Command(binary, "cert", "join-token", fresh.Name, "--host", host, "--http", fresh.HTTP, "--sign", "--dir", c.CertDir(),
		"--servers", strings.Join(c.Servers()[:3], ","), "--ca", filepath.Join(c.CertDir(), certs.CAFile), "--token-file", secret)
	var said strings.Builder
	operator.Stderr = &said
	out, err := operator.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := operator.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 4<<10)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	join := exec.Command(binary, "join", "-", "--dir", dir, "--timeout", "1m")
	join.Stdin = strings.NewReader(string(line[:n]))
	if text, err := join.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if err := operator.Wait(); err != nil {
		t.Errorf("the operator's command: %v: %s", err, said.String())
	}
	fresh.Flags = append(fresh.Flags, "--tls-ca", filepath.Join(dir, certs.CAFile),
		"--tls-cert", filepath.Join(dir, fresh.Name+".crt"), "--tls-key", filepath.Join(dir, fresh.Name+".key"))
	fresh.Start()
	follows(c, fresh)
	s, err := c.WaitLeader().Status()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, p := range s.Peers {
		found = found || p.Name == fresh.Name
	}
	if !found {
		t.Errorf("%s is not a member: %+v", fresh.Name, s.Peers)
	}
}
