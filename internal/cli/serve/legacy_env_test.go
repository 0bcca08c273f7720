package serve

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/pflag"

	"osqueue/api"
	"osqueue/internal/cli/view"
)

// flagsOf are the flags of serve as a command line and an environment make them.
func flagsOf(t *testing.T, args string, env map[string]string) (f *pflag.FlagSet, notices []string, err error) {
	t.Helper()
	f = newServeCommand(&view.Globals{}).Flags()
	if err := f.Parse(strings.Fields(args)); err != nil {
		t.Fatal(err)
	}
	getenv := func(name string) string { return env[name] }
	if err := flagsFromEnv(f, getenv); err != nil {
		t.Fatal(err)
	}
	e := &originalEnv{flags: f, getenv: getenv, hostname: func() (string, error) { return "box", nil }}
	e.take()
	return f, e.notices, errors.Join(e.errs...)
}

func TestEnvironmentOfTheOriginal(t *testing.T) {
	type env = map[string]string
	for name, test := range map[string]struct {
		args  string
		env   env
		want  map[string]string // flags
		noted []string          // parts of the notices
	}{
		"nothing": {env: env{}, want: env{"bucket": "", "http-addr": "127.0.0.1:8080", "ack": "quorum", "flush-interval": "", "standby-retry": "10s"}},
		"all of S3": {
			env: env{
				"BROKER_HOST": "10.0.0.7", "BROKER_PORT": "9000", "STORAGE_BACKEND": "s3", "S3_BUCKET": "jobs", "S3_REGION": "eu-central-1",
				"S3_PREFIX": "prod/queue/", "GROUP_COMMIT_INTERVAL_MS": "80", "BROKER_HEARTBEAT_INTERVAL_MS": "2000",
				"S3_MAX_READS_PER_MINUTE": "600", "S3_MAX_WRITES_PER_MINUTE": "60",
				"S3_MAX_WRITES_PER_DAY": "5000", "BROKER_HEARTBEAT_TIMEOUT_MS": "20000",
			},
			want: env{
				"bucket": "s3://jobs/prod/queue?region=eu-central-1", "http-addr": "10.0.0.7:9000", "http-advertise": "",
				"flush-interval": "80ms", "broker-heartbeat": "2s", "bucket-reads-per-minute": "600", "bucket-writes-per-minute": "60",
				"bucket-writes-per-day": "5000", "broker-timeout": "20s",
				"ack": "object", "standby-retry": "10s", "peers": "",
			},
		},
		"short timeout": {env: env{"BROKER_HEARTBEAT_TIMEOUT_MS": "2000"}, want: env{"broker-timeout": "2s", "broker-heartbeat": "666ms"}},
		"short timeout and a heartbeat": {
			args: "--broker-heartbeat 500ms", env: env{"BROKER_HEARTBEAT_TIMEOUT_MS": "2000"}, want: env{"broker-timeout": "2s", "broker-heartbeat": "500ms"},
		},
		"S3 without more":  {env: env{"STORAGE_BACKEND": "S3", "S3_BUCKET": "jobs"}, want: env{"bucket": "s3://jobs", "flush-interval": "50ms", "ack": "object"}},
		"S3 by its bucket": {env: env{"S3_BUCKET": "jobs"}, want: env{"bucket": "s3://jobs"}},
		"GCS":              {env: env{"STORAGE_BACKEND": "gcs", "GCS_BUCKET": "jobs", "GCS_PREFIX": "/a b/"}, want: env{"bucket": "gs://jobs/a%20b", "flush-interval": "", "ack": "object"}},
		"memory":           {env: env{"STORAGE_BACKEND": "memory"}, want: env{"bucket": "mem://", "ack": "object"}},
		"port alone":       {env: env{"BROKER_PORT": "9000"}, want: env{"http-addr": "127.0.0.1:9000", "ack": "quorum"}},
		"host alone":       {env: env{"BROKER_HOST": "localhost"}, want: env{"http-addr": "localhost:8080", "http-advertise": ""}},
		"all addresses":    {env: env{"BROKER_HOST": "0.0.0.0", "BROKER_PORT": "9000"}, want: env{"http-addr": "0.0.0.0:9000", "http-advertise": "box:9000"}},
		"IPv6":             {env: env{"BROKER_HOST": "::", "BROKER_PORT": "9000"}, want: env{"http-addr": "[::]:9000", "http-advertise": "box:9000"}},
		"advertised":       {args: "--http-advertise q.test:80", env: env{"BROKER_HOST": "0.0.0.0"}, want: env{"http-addr": "0.0.0.0:8080", "http-advertise": "q.test:80"}},
		"at once":          {env: env{"GROUP_COMMIT_INTERVAL_MS": "0"}, want: env{"flush-interval": "1ms"}},
		"no limit":         {env: env{"S3_MAX_WRITES_PER_MINUTE": "0"}, want: env{"bucket-writes-per-minute": "0"}},
		"a flag beats it": {
			args: "--bucket mem://a --http-addr 127.0.0.1:1", env: env{"STORAGE_BACKEND": "s3", "S3_BUCKET": "jobs", "BROKER_PORT": "9000"},
			want:  env{"bucket": "mem://a", "http-addr": "127.0.0.1:1", "ack": "quorum", "flush-interval": ""},
			noted: []string{"STORAGE_BACKEND is not used: --bucket (or OSQUEUE_BUCKET) says mem://a", "BROKER_PORT is not used: --http-addr"},
		},
		"our name beats it": {
			env:  env{"OSQUEUE_FLUSH_INTERVAL": "2s", "GROUP_COMMIT_INTERVAL_MS": "80"},
			want: env{"flush-interval": "2s"}, noted: []string{"GROUP_COMMIT_INTERVAL_MS is not used: --flush-interval (or OSQUEUE_FLUSH_INTERVAL) says 2s"},
		},
		"a flag that says the same": {args: "--bucket mem://", env: env{"STORAGE_BACKEND": "memory"}, want: env{"ack": "quorum"}},
		"somebody else's bucket":    {args: "--bucket mem://a", env: env{"S3_BUCKET": "backups", "S3_REGION": "x"}, want: env{"bucket": "mem://a"}},
		"with peers":                {args: "--peers n1=a:1", env: env{"STORAGE_BACKEND": "s3", "S3_BUCKET": "jobs"}, want: env{"bucket": "s3://jobs", "ack": "quorum", "flush-interval": ""}},
		"ack as it was said":        {args: "--ack quorum", env: env{"STORAGE_BACKEND": "memory"}, want: env{"ack": "quorum"}},
		"a bucket of the other kind": {
			env:  env{"STORAGE_BACKEND": "gcs", "GCS_BUCKET": "g", "S3_BUCKET": "s"},
			want: env{"bucket": "gs://g"}, noted: []string{"S3_BUCKET is not used: STORAGE_BACKEND says gcs"},
		},
		"buckets, and memory": {
			env:  env{"STORAGE_BACKEND": "memory", "GCS_BUCKET": "g", "S3_BUCKET": "s"},
			want: env{"bucket": "mem://"}, noted: []string{"S3_BUCKET is not used: STORAGE_BACKEND says memory", "GCS_BUCKET is not used"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, notices, err := flagsOf(t, test.args, test.env)
			if err != nil {
				t.Fatal(err)
			}
			for flag, want := range test.want {
				if got := f.Lookup(flag).Value.String(); got != want {
					t.Errorf("--%s is %q, want %q", flag, got, want)
				}
			}
			if len(notices) != len(test.noted) {
				t.Errorf("notices %q", notices)
			}
			for _, part := range test.noted {
				if !slices.ContainsFunc(notices, func(n string) bool { return strings.Contains(n, part) }) {
					t.Errorf("notices %q, and not %q", notices, part)
				}
			}
		})
	}
}

func TestEnvironmentThatContradictsItself(t *testing.T) {
	type env = map[string]string
	for name, test := range map[string]struct {
		env  env
		want string
	}{
		"unknown":      {env{"STORAGE_BACKEND": "azure"}, `STORAGE_BACKEND="azure": write memory, s3 or gcs`},
		"no bucket":    {env{"STORAGE_BACKEND": "s3", "GCS_BUCKET": "g"}, "STORAGE_BACKEND=s3 needs S3_BUCKET"},
		"no bucket, 2": {env{"STORAGE_BACKEND": "gcs"}, "STORAGE_BACKEND=gcs needs GCS_BUCKET"},
		"both":         {env{"S3_BUCKET": "s", "GCS_BUCKET": "g"}, "which of them is meant?"},
		"port":         {env{"BROKER_PORT": "http"}, `BROKER_PORT="http": write a port`},
		"port 0":       {env{"BROKER_PORT": "0"}, `BROKER_PORT="0": write a port`},
		"port 70000":   {env{"BROKER_PORT": "70000"}, `BROKER_PORT="70000": write a port`},
		"interval":     {env{"GROUP_COMMIT_INTERVAL_MS": "50ms"}, `GROUP_COMMIT_INTERVAL_MS="50ms": write a whole number`},
		"negative":     {env{"BROKER_HEARTBEAT_INTERVAL_MS": "-1"}, `write a whole number`},
		"budget":       {env{"S3_MAX_READS_PER_MINUTE": "1.5"}, `write a whole number`},
	} {
		if _, _, err := flagsOf(t, "", test.env); err == nil || !strings.Contains(err.Error(), test.want) || view.ExitCode(err) != view.ExitUsage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// runServe runs the command serve without flags, and returns the exit status.
func runServe(ctx context.Context, g *view.Globals) int {
	return view.Execute(ctx, []string{"serve"}, g, view.NewRoot(g, Commands(g)...))
}

// Values from the environment are checked like flags.
func TestEnvironmentIsChecked(t *testing.T) {
	for want, env := range map[string]map[string]string{
		"must not be longer than --broker-heartbeat": {"STORAGE_BACKEND": "memory", "GROUP_COMMIT_INTERVAL_MS": "5000"},
		"must be shorter": {"STORAGE_BACKEND": "memory", "BROKER_HEARTBEAT_INTERVAL_MS": "10000", "BROKER_PORT": "18993"},
	} {
		var out, errOut strings.Builder
		env["OSQUEUE_DATA"] = t.TempDir()
		g := &view.Globals{Out: &out, Err: &errOut, Getenv: func(name string) string { return env[name] }}
		if code := runServe(t.Context(), g); code != view.ExitUsage || !strings.Contains(errOut.String(), want) {
			t.Errorf("%v: %d %s", env, code, errOut.String())
		}
	}
}

// With that environment alone there is a broker of one node, and its clients find
// it.
func TestServeAsTheOriginalDoes(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	_, port, _ := net.SplitHostPort(address)
	env := map[string]string{
		"BROKER_HOST": "127.0.0.1", "BROKER_PORT": port, "STORAGE_BACKEND": "memory", "S3_MAX_WRITES_PER_MINUTE": "600",
		"OSQUEUE_DATA": t.TempDir(), "OSQUEUE_RAFT_ADDR": "127.0.0.1:0", // so that it does not meet others
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var errOut bytes.Buffer
	code := make(chan int, 1)
	go func() {
		g := &view.Globals{Out: io.Discard, Err: &errOut, Getenv: func(name string) string { return env[name] }}
		code <- runServe(ctx, g)
	}()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	ask := func(method, path, body string) (status int, answer string) {
		r, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(got)
	}
	end := time.Now().Add(20 * time.Second)
	for status := 0; status != http.StatusOK; time.Sleep(10 * time.Millisecond) {
		var answer string
		if status, answer = ask("POST", "/v1/jobs", `{"payload":1}`); time.Now().After(end) {
			t.Fatalf("not after 20 s: %d %s", status, answer)
		}
	}
	for path, want := range map[string]string{
		"/v1/stats": `"brokerAddress":"` + address + `"`, "/v1/throttle-stats": `"dailyBudgetExceeded":false`, "/status": `"ack":"object"`,
	} {
		if status, answer := ask("GET", path, ""); status != http.StatusOK || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	stop()
	if got := <-code; got != view.ExitOK {
		t.Errorf("it ended with %d: %s", got, errOut.String())
	}
}

// A single node in the place of the legacy broker starts with its address, whatever that is.
// The port for nodes, and an address from a flag, still need certificates.
func TestAddressOfTheLegacyBroker(t *testing.T) {
	for _, c := range []struct {
		env      bool
		raft     string
		accepted bool
	}{{true, "127.0.0.1:7080", true}, {false, "127.0.0.1:7080", false}, {true, "10.0.0.7:7080", false}} {
		o := serveOptions{httpAddr: "10.0.0.7:9000", legacyAddress: c.env}
		o.node.RaftAddr, o.node.Logger, o.security.mode = c.raft, hclog.NewNullLogger(), api.SecurityOff
		if err := o.checkExposure(); (err == nil) != c.accepted {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
