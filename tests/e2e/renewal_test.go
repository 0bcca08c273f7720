package e2e

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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"osqueue/client"
	"osqueue/internal/auth/certs"
	"osqueue/internal/host"
	"osqueue/tests/cluster"
)

// certificatesEnd is the life of the first certificates of this test: they are renewed after 20 s.
const certificatesEnd = 30 * time.Second

// The load of TestCertificatesAreRenewedUnderLoad.
const (
	jobsPerSecond   = 1000
	jobsOfOneCall   = 100
	callers         = 8
	catchUp         = 10 // seconds of jobs that the callers may be late with
	enoughPerSecond = jobsPerSecond * 95 / 100
)

// All certificates end and are renewed by the nodes themselves, and the CA is replaced by the
// operator's commands, under a load of 1000 jobs/s on kept connections and of requests on new
// ones. No request fails, and none is repeated. If the machine is too busy for that load, the test
// checks the same with the load that it reaches, and is then skipped with the rate.
func TestCertificatesAreRenewedUnderLoad(t *testing.T) {
	t.Parallel()
	// Long timeouts of raft, because a change of the leader makes requests fail.
	c := cluster.New(t, cluster.Options{TLS: true, Flags: []string{"--raft-heartbeat", "3s", "--raft-election", "3s", "--raft-lease", "2s"}})
	a, err := certs.LoadAuthority(c.CertDir())
	if err != nil {
		t.Fatal(err)
	}
	ended := time.Now().Add(certificatesEnd)
	dirs := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		if _, err := a.Renew(n.Name, certificatesEnd, time.Now()); err != nil {
			t.Fatal(err)
		}
		dirs[i] = ownFiles(t, c, n)
		if i == 0 { // the only one with the key of the CA
			n.Flags = append(n.Flags, "--tls-ca-key", filepath.Join(c.CertDir(), "ca.key"))
		}
		n.Start()
	}
	c.WaitLeader()
	c.Eventually(cluster.LeaderTimeout, "the token", func() error { _, err := c.Client.Stats(c.Context(time.Second)); return err })

	l := loadOf(t, c)
	// until waits until the certificate of each node on the disk fulfills a condition.
	until := func(what string, good func(*x509.Certificate) bool) {
		t.Helper()
		c.Eventually(longPatience, what, func() error {
			l.check(t)
			for i, n := range c.Nodes {
				list, err := certs.ReadList(filepath.Join(dirs[i], n.Name+".crt"))
				if err != nil || !good(list[0]) {
					return fmt.Errorf("%s: %w", n.Name, errors.Join(err, errOld))
				}
			}
			return nil
		})
	}
	began := time.Now()
	until("the renewal of all certificates", func(c *x509.Certificate) bool { return certs.IssuedAt(c).After(began) })
	operator(t, c, "cert", "ca", "--rotate", "--dir", c.CertDir())
	copyCA(t, c, dirs)
	newest, err := certs.ReadList(filepath.Join(c.CertDir(), certs.CAFile))
	if err != nil || len(newest) != 2 {
		t.Fatalf("the CA has %d certificates (%v)", len(newest), err)
	}
	until("certificates of the new CA", func(c *x509.Certificate) bool { return c.CheckSignatureFrom(newest[0]) == nil })
	operator(t, c, "cert", "ca", "--retire", "--dir", c.CertDir())
	copyCA(t, c, dirs)
	for _, dir := range slices.Concat(dirs, []string{c.CertDir()}) {
		if list, err := certs.ReadList(filepath.Join(dir, certs.CAFile)); err != nil || len(list) != 1 || !list[0].Equal(newest[0]) {
			t.Errorf("%s has %d certificates of the CA, want the newest one (%v)", dir, len(list), err)
		}
	}
	c.Eventually(longPatience, "the end of the first certificates", func() error {
		l.check(t)
		if left := time.Until(ended); left > 0 {
			return fmt.Errorf("it is in %v", left)
		}
		return nil
	})
	began = time.Now()
	until("renewals by the new CA", func(c *x509.Certificate) bool {
		return certs.IssuedAt(c).After(began) && c.CheckSignatureFrom(newest[0]) == nil
	})
	rate := l.stop(t)
	c.TrustCA()
	n := c.Follower()
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	n.Start()
	follows(c, n)
	if rate < enoughPerSecond && !t.Failed() {
		t.Skipf("no request failed, but this machine was too busy for the load of the promise: %d of %d jobs/s", rate, jobsPerSecond)
	}
}

// ownFiles gives a node a directory with its own copies of its files, as on a machine of its own.
func ownFiles(t *testing.T, c *cluster.Cluster, n *cluster.Node) (dir string) {
	t.Helper()
	dir = t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{certs.CAFile, n.Name + ".crt", n.Name + ".key"} {
		data, err := os.ReadFile(filepath.Join(c.CertDir(), name))
		if err == nil {
			err = os.WriteFile(at(name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	n.Flags = append(n.Flags, "--tls-ca", at(certs.CAFile), "--tls-cert", at(n.Name+".crt"), "--tls-key", at(n.Name+".key"))
	return dir
}

// copyCA copies the certificates of the CA to all nodes. The first node, which signs, gets them when the
// others have read theirs: it then signs with the new CA.
func copyCA(t *testing.T, c *cluster.Cluster, dirs []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(c.CertDir(), certs.CAFile))
	if err != nil {
		t.Fatal(err)
	}
	read := func(n *cluster.Node) int { return strings.Count(n.Log(), "changed certificates are in use") }
	for i := len(dirs) - 1; i >= 0; i-- {
		before := read(c.Nodes[i])
		if err := host.ReplaceFile(filepath.Join(dirs[i], certs.CAFile), data, 0o600); err != nil {
			t.Fatal(err)
		}
		c.Eventually(longPatience, c.Nodes[i].Name+" reads the CA's certificates", func() error {
			if read(c.Nodes[i]) == before {
				return errOld
			}
			return nil
		})
	}
}

// operator runs a command of osqueue as an admin, who trusts the CA in the cluster's directory.
func operator(t *testing.T, c *cluster.Cluster, args ...string) {
	t.Helper()
	binary, err := cluster.Binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(c.Context(longPatience), binary, args...)
	cmd.Env = append(os.Environ(), "OSQUEUE_SERVERS="+strings.Join(c.Servers(), ","), "OSQUEUE_TOKEN="+c.Token())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
	t.Logf("%s\n%s", strings.Join(args, " "), out)
}

// securedLoad are clients of a cluster with certificates that repeat no request.
type securedLoad struct {
	jobs, requests atomic.Int64
	began          time.Time
	end            context.CancelFunc
	failed         chan error
	running        sync.WaitGroup
}

func loadOf(t *testing.T, c *cluster.Cluster) *securedLoad {
	t.Helper()
	for _, n := range c.Nodes {
		follows(c, n) // a node that knows no leader refuses a request, which is not repeated
	}
	trust := followCA(filepath.Join(c.CertDir(), certs.CAFile))
	kept, err := client.New(client.Config{Servers: c.Servers(), Token: c.Token(), TLS: trust, RetryFor: -1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	l := &securedLoad{began: time.Now(), end: end, failed: make(chan error, callers+1)}
	t.Cleanup(func() { end(); l.running.Wait(); kept.Close() })
	run := func(limit *rate.Limiter, count *atomic.Int64, n int, call func(ctx context.Context, i int) error) {
		l.running.Go(func() {
			for i := 0; limit.WaitN(ctx, n) == nil; i++ {
				if err := call(ctx, i); err != nil {
					if ctx.Err() == nil {
						l.failed <- err
					}
					return
				}
				count.Add(int64(n))
			}
		})
	}
	batch := make([]client.NewJob, jobsOfOneCall)
	for i := range batch {
		batch[i].Type = "t"
	}
	limit := rate.NewLimiter(jobsPerSecond, catchUp*jobsPerSecond)
	limit.AllowN(time.Now(), catchUp*jobsPerSecond-jobsOfOneCall) // it begins without arrears
	for range callers {
		run(limit, &l.jobs, jobsOfOneCall, func(ctx context.Context, _ int) error {
			_, err := kept.EnqueueBatch(ctx, batch)
			return err
		})
	}
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: trust}}
	run(rate.NewLimiter(10, 1), &l.requests, 1, func(ctx context.Context, i int) error {
		return enqueueAt(ctx, fresh, c.Nodes[i%len(c.Nodes)].HTTP, c.Token()) // two of three nodes forward it
	})
	return l
}

// check fails the test if a request has failed.
func (l *securedLoad) check(t *testing.T) {
	t.Helper()
	select {
	case err := <-l.failed:
		t.Fatalf("a request failed: %v (after %d jobs and %d requests)", err, l.jobs.Load(), l.requests.Load())
	default:
	}
}

// stop ends the load and returns the jobs per second that it reached.
func (l *securedLoad) stop(t *testing.T) int64 {
	t.Helper()
	rate := l.jobs.Load() * int64(time.Second) / int64(time.Since(l.began))
	l.end()
	l.running.Wait()
	l.check(t)
	t.Logf("%d jobs on kept connections (%d/s), %d requests on new ones, in %v", l.jobs.Load(), rate, l.requests.Load(), time.Since(l.began))
	return rate
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
