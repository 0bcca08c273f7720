package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth/certs"
	"osqueue/tests/cluster"
	"osqueue/tests/cluster/link"
	"osqueue/tests/cluster/store"
)

// diagnosis is what osqueue doctor prints for programs.
type diagnosis struct {
	Nodes    []string
	Checks   int
	Findings []struct{ Check, At, What, Cure string }
}

// patient runs osqueue doctor with arguments and returns the diagnosis. The exit status must fit.
func patient(t *testing.T, args ...string) (d diagnosis, err error) {
	t.Helper()
	out, code := command(t, append([]string{"doctor", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		return d, fmt.Errorf("doctor prints %q: %w", out, err)
	}
	if want := min(len(d.Findings), 1); code != want {
		t.Errorf("doctor exits with %d, and finds %v", code, d.Findings)
	}
	return d, nil
}

// finds waits until doctor finds a fault by the check for it, with a cure.
func finds(t *testing.T, c *cluster.Cluster, check, cure string, args ...string) {
	t.Helper()
	c.Eventually(longPatience, "doctor to find: "+check, func() error {
		d, err := patient(t, args...)
		for _, f := range d.Findings {
			if f.Check == check && strings.Contains(f.Cure, cure) {
				t.Logf("%s: %s: %s\n  cure: %s", f.Check, f.At, f.What, f.Cure)
				return err
			}
		}
		return errors.Join(err, fmt.Errorf("it finds %v", d.Findings))
	})
}

// well waits until doctor finds nothing.
func well(t *testing.T, c *cluster.Cluster, args ...string) {
	t.Helper()
	c.Eventually(longPatience, "doctor to find nothing", func() error {
		d, err := patient(t, args...)
		if err == nil && len(d.Findings) > 0 {
			err = fmt.Errorf("it finds %v", d.Findings)
		}
		return err
	})
}

// Faults of nodes, links, clocks and bucket, and jobs that an operator must look at, one after another in a cluster of three.
func TestDoctorFindsFaultsOfACluster(t *testing.T) {
	t.Parallel()
	s := store.StartKind(t, store.GoFakeS3)
	c := cluster.Start(t, cluster.Options{Bucket: s.URL(), FaultClock: true, Links: true, Flags: []string{
		"--broker-timeout", "2s", "--broker-heartbeat", "500ms", "--standby-retry", "500ms", "--max-flush-lag", "5s", "--max-jobs", "100",
	}})
	c.WaitVoters()
	one := []string{"--servers", c.WaitLeader().HTTP, "--timeout", "3s"} // it finds the others
	well(t, c, one...)
	f := c.Follower()

	_, err := f.SetClock(5*time.Second, 0)
	check(t, err)
	finds(t, c, "clock wrong", "timedatectl", one...)
	_, err = f.SetClock(0, 0)
	check(t, err)

	f.Pause()
	finds(t, c, "node away", "start the node at "+f.HTTP, one...)
	f.Continue()
	f.Kill()
	finds(t, c, "node away", "start the node at "+f.HTTP, one...)
	f.Start()
	well(t, c, one...)

	var cuts []link.Link
	for _, n := range c.Nodes {
		if n != f {
			cuts = append(cuts, link.Both(f.Name, n.Name, link.Raft)...)
		}
	}
	cut := c.Net().Impose(link.Condition{Cut: true}, cuts...)
	finds(t, c, "member silent", "--raft-addr of "+f.Name, one...)
	cut.Heal()
	all := []string{"--servers", strings.Join(c.Servers(), ","), "--timeout", "3s"}
	well(t, c, all...)

	s.Proxy(t).SetDown(true)
	_, err = c.Client.Enqueue(c.Context(longPatience), client.NewJob{Type: "kept"})
	check(t, err)
	finds(t, c, "flush fails", "repair the bucket", all...)
	finds(t, c, "bucket behind", "repair the bucket", all...)
	finds(t, c, "writes refused", "repair the bucket", all...)
	s.Proxy(t).Behave()
	well(t, c, all...)

	_, err = c.Client.EnqueueBatch(c.Context(longPatience), slices.Repeat([]client.NewJob{{Type: "fails"}}, 12))
	check(t, err)
	claimed, err := c.Client.Claim(c.Context(longPatience), client.ClaimOptions{Worker: "w", Types: []string{"fails"}, Max: 12})
	check(t, err)
	for _, j := range claimed {
		check(t, c.Client.Fail(c.Context(longPatience), j.Lease(), client.Failure{Error: "no", Permanent: true}))
	}
	finds(t, c, "dead jobs grow", "osqueue dead ls --type fails", all...)

	_, err = c.Client.SetQueue(c.Context(longPatience), "narrow", client.QueuePatch{MaxJobs: client.SetTo[int64](10)})
	check(t, err)
	_, err = c.Client.EnqueueBatch(c.Context(longPatience), slices.Repeat([]client.NewJob{{Type: "narrow"}}, 10))
	check(t, err)
	finds(t, c, "quota of a type near", "osqueue queue set narrow", all...)
	_, err = c.Client.EnqueueBatch(c.Context(longPatience), slices.Repeat([]client.NewJob{{Type: "many"}}, 85))
	check(t, err)
	finds(t, c, "quota near", "raise --max-jobs", all...)

	c.Follower().Kill()
	c.WaitLeader().Kill()
	finds(t, c, "no leader", "until a majority runs", all...)
}

// Two nodes with few descriptors, on a slow disk and with a slow bucket; a node of another cluster; and buckets that cannot
// be used.
func TestDoctorFindsBadMachines(t *testing.T) {
	t.Parallel()
	s := store.StartKind(t, store.GoFakeS3)
	program, err := cluster.FaultBinary()
	check(t, err)
	limited := filepath.Join(t.TempDir(), "osqueue")
	check(t, os.WriteFile(limited, []byte("#!/bin/sh\nulimit -n 1000\nexec "+program+" \"$@\"\n"), 0o700))
	c := cluster.New(t, cluster.Options{Nodes: 2, Bucket: s.URL(), FaultClock: true, Flags: []string{"--broker-heartbeat", "500ms"}})
	for _, n := range c.Nodes {
		n.Binary = limited
		n.Start()
	}
	leader := c.WaitLeader()
	s.Proxy(t).SetSlow(1200 * time.Millisecond)
	at := []string{"--servers", leader.HTTP}
	finds(t, c, "few descriptors", "LimitNOFILE=65536 in the unit of "+leader.HTTP, at...)
	finds(t, c, "even votes", "add a node", at...)
	for i := range 120 {
		if i%30 == 0 {
			check(t, leader.HangDisk())
			time.AfterFunc(400*time.Millisecond, func() { _ = leader.UnhangDisk() })
		}
		_, err := c.Client.Enqueue(c.Context(longPatience), client.NewJob{Type: "t"})
		check(t, err)
	}
	finds(t, c, "disk slow", "give --data of "+leader.HTTP, at...)
	finds(t, c, "bucket slow", "region of the nodes", at...)

	other := cluster.Start(t, cluster.Options{Nodes: 1})
	finds(t, c, "another cluster", "take "+other.Nodes[0].HTTP+" out of --servers", "--servers", leader.HTTP+","+other.Nodes[0].HTTP)

	// A store that ignores conditions.
	endpoint, err := url.Parse(store.Server(t, store.GoFakeS3))
	check(t, err)
	careless := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(endpoint)
		r.Out.Host = r.In.Host
		r.Out.Header.Del("If-Match")
		r.Out.Header.Del("If-None-Match")
	}})
	t.Cleanup(careless.Close)
	bucket := func(endpoint string) string {
		return "s3://bucket/doctor?region=us-east-1&endpoint=" + url.QueryEscape(endpoint)
	}
	finds(t, c, "bucket unsafe", "conditional writes refuse", "--servers", other.Nodes[0].HTTP, "--bucket", bucket(careless.URL))
	finds(t, c, "bucket away", "credentials", "--servers", other.Nodes[0].HTTP, "--timeout", "3s", "--bucket", bucket("http://127.0.0.1:1"))
	well(t, c, "--servers", other.Nodes[0].HTTP, "--bucket", other.Bucket())
}

// Certificates and tokens; and a bundle of all nodes, of which one hangs: it has what the others know, and no secret.
func TestDoctorAndBundleWithCertificates(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{TLS: true})
	c.WaitVoters()
	token := filepath.Join(t.TempDir(), "admin.token")
	check(t, os.WriteFile(token, []byte(c.Token()), 0o600))
	ca := filepath.Join(c.CertDir(), certs.CAFile)
	servers := []string{"--servers", strings.Join(c.Servers(), ",")}
	admin := append(servers, "--ca", ca, "--token-file", token)
	well(t, c, admin...)
	finds(t, c, "no right to read", "osqueue token create --role reader", append(servers, "--ca", ca)...)
	wrong := t.TempDir()
	_, err := certs.CreateAuthority(wrong, certs.CALifetime, time.Now())
	check(t, err)
	finds(t, c, "certificate refused", "--ca ca.crt", append(servers, "--ca", filepath.Join(wrong, certs.CAFile))...)

	checkBundle(t, c, token, admin)

	f := c.Follower()
	a, err := certs.LoadAuthority(c.CertDir())
	check(t, err)
	_, err = a.Renew(f.Name, 24*time.Hour, time.Now())
	check(t, err)
	finds(t, c, "certificate ends soon", "osqueue cert sign", admin...)
	_, err = a.Renew(f.Name, 30*time.Second, time.Now())
	check(t, err)
	finds(t, c, "certificate ended", "osqueue cert renew", admin...)
}

func checkBundle(t *testing.T, c *cluster.Cluster, token string, admin []string) {
	t.Helper()
	const payload, failure = "the-secret-payload", "the-secret-error"
	created, err := c.Client.CreateToken(c.Context(longPatience), v1.NewToken{Role: "worker"})
	check(t, err)
	for range 3 {
		_, err := c.Client.Enqueue(c.Context(longPatience), client.NewJob{Type: "t", Payload: []byte(`"` + payload + `"`), Headers: map[string]string{"h": payload}})
		check(t, err)
	}
	claimed, err := c.Client.Claim(c.Context(longPatience), client.ClaimOptions{Worker: "w", Types: []string{"t"}})
	check(t, err)
	check(t, c.Client.Fail(c.Context(longPatience), claimed[0].Lease(), client.Failure{Error: failure}))
	hung := c.Follower()
	hung.Pause()
	defer hung.Continue()
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	began := time.Now()
	out, code := command(t, append([]string{"debug", "bundle", file}, admin...)...)
	if code != 0 || !strings.Contains(out, "16 parts, 1 of them missing") {
		t.Fatalf("%d: %s", code, out)
	}
	within(t, "a bundle with a node that hangs", time.Since(began), 30*time.Second)
	files := untar(t, file)
	for _, n := range c.Nodes {
		dir := "osqueue-debug/" + n.Name + "-" + strings.ReplaceAll(n.HTTP, ":", "_")
		if n == hung {
			if text := files["osqueue-debug/"+strings.ReplaceAll(n.HTTP, ":", "_")+"/status.json.error"]; len(text) == 0 {
				t.Error("there is no error of the node that hangs")
			}
			continue
		}
		for name, has := range map[string]string{
			"status.json": `"node_id":"` + n.Name, "metrics.txt": "process_max_fds", "settings.yaml": "raft-addr: ", "log.txt": "serving", "goroutines.txt": "goroutine profile",
			"heap.pprof": "", "cpu.pprof": "",
		} {
			if text := files[dir+"/"+name]; len(text) == 0 || !bytes.Contains(text, []byte(has)) {
				t.Errorf("%s/%s lacks %q: %.200s", dir, name, has, text)
			}
		}
	}
	if text := files["osqueue-debug/doctor.txt"]; !bytes.Contains(text, []byte("node away: "+hung.HTTP)) {
		t.Errorf("doctor.txt: %s", text)
	}
	key, err := os.ReadFile(filepath.Join(c.CertDir(), "n1.key"))
	check(t, err)
	for name, text := range files {
		if r, err := gzip.NewReader(bytes.NewReader(text)); err == nil { // a profile
			text, err = io.ReadAll(r)
			check(t, err)
		}
		for _, secret := range []string{payload, failure, c.Token(), created.Token, string(key)} {
			if bytes.Contains(text, []byte(secret)) {
				t.Errorf("%s contains %q", name, secret)
			}
		}
	}

	// Only an admin gets any of it.
	secure, err := client.LoadTLS(filepath.Join(c.CertDir(), certs.CAFile), "", "")
	check(t, err)
	hc := &http.Client{Transport: &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true}}
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile", "/debug/pprof/trace", "/debug/log", "/debug/settings"} {
		for bearer, want := range map[string]int{"": http.StatusUnauthorized, created.Token: http.StatusForbidden} {
			req, err := http.NewRequestWithContext(c.Context(longPatience), http.MethodGet, "https://"+c.WaitLeader().HTTP+path, http.NoBody)
			check(t, err)
			if bearer != "" {
				req.Header.Set("Authorization", "Bearer "+bearer)
			}
			resp, err := hc.Do(req)
			check(t, err)
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s with %q: %s", path, bearer, resp.Status)
			}
		}
	}
}

// untar returns the files of an archive.
func untar(t *testing.T, file string) map[string][]byte {
	t.Helper()
	f, err := os.Open(file)
	check(t, err)
	defer f.Close()
	zip, err := gzip.NewReader(f)
	check(t, err)
	files := make(map[string][]byte)
	for r := tar.NewReader(zip); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		check(t, err)
		files[head.Name], err = io.ReadAll(r)
		check(t, err)
	}
}
