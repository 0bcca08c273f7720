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

	"github.com/spf13/pflag"

	"osqueue/cmd/osqueue/view"
)

// flagsOf are the flags of serve as a command line and an environment make them.
func flagsOf(t *testing.T, args string, env map[string]string) (f *pflag.FlagSet, notices []string, err error) {
	t.Helper()
	o := newOptions()
	f = pflag.NewFlagSet("serve", pflag.ContinueOnError)
	o.bind(f)
	check(t, f.Parse(strings.Fields(args)))
	getenv := func(name string) string { return env[name] }
	if err := errors.Join(view.FromEnv(f, getenv), o.fromFile()); err != nil {
		return f, nil, err
	}
	e := &originalEnv{flags: f, getenv: getenv}
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
				"bucket": "s3://jobs/prod/queue?region=eu-central-1", "legacy-http-addr": "10.0.0.7:9000", "legacy-allow": "private",
				"http-addr": "127.0.0.1:8080", "http-advertise": "",
				"flush-interval": "80ms", "broker-heartbeat": "2s", "bucket-reads-per-minute": "600", "bucket-writes-per-minute": "60",
				"bucket-writes-per-day": "5000", "broker-timeout": "20s",
				"ack": "object", "standby-retry": "10s", "peers": "",
			},
			noted: []string{"legacy clients are served at 10.0.0.7:9000 (BROKER_HOST) without TLS and tokens, from these networks only: private (--legacy-allow); the API is at 127.0.0.1:8080"},
		},
		"short timeout": {env: env{"BROKER_HEARTBEAT_TIMEOUT_MS": "2000"}, want: env{"broker-timeout": "2s", "broker-heartbeat": ""}}, // a third of it
		"short timeout and a heartbeat": {
			args: "--broker-heartbeat 500ms", env: env{"BROKER_HEARTBEAT_TIMEOUT_MS": "2000"}, want: env{"broker-timeout": "2s", "broker-heartbeat": "500ms"},
		},
		"S3 without more": {env: env{"STORAGE_BACKEND": "S3", "S3_BUCKET": "jobs"}, want: env{"bucket": "s3://jobs", "flush-interval": "50ms", "ack": "object", "broker-heartbeat": "3s", "broker-timeout": "10s"}},
		"S3 with a slow heartbeat": {
			args: "--broker-heartbeat 30s --broker-timeout 90s", env: env{"S3_BUCKET": "jobs"}, want: env{"broker-heartbeat": "30s", "broker-timeout": "1m30s"},
		},
		"S3 by its bucket": {env: env{"S3_BUCKET": "jobs"}, want: env{"bucket": "s3://jobs"}},
		"GCS":              {env: env{"STORAGE_BACKEND": "gcs", "GCS_BUCKET": "jobs", "GCS_PREFIX": "/a b/"}, want: env{"bucket": "gs://jobs/a%20b", "flush-interval": "", "ack": "object"}},
		"memory":           {env: env{"STORAGE_BACKEND": "memory"}, want: env{"bucket": "mem://", "ack": "object"}},
		"port alone":       {env: env{"BROKER_PORT": "9000"}, want: env{"http-addr": "127.0.0.1:9000", "ack": "quorum"}},
		"host alone":       {env: env{"BROKER_HOST": "localhost"}, want: env{"http-addr": "localhost:8080", "http-advertise": "", "legacy-http-addr": ""}},
		"all addresses": {
			env: env{"BROKER_HOST": "0.0.0.0"}, want: env{"legacy-http-addr": "0.0.0.0:8080", "http-addr": "127.0.0.1:8081"},
			noted: []string{"the API is at 127.0.0.1:8081"},
		},
		"IPv6": {
			env: env{"BROKER_HOST": "::", "BROKER_PORT": "9000"}, want: env{"legacy-http-addr": "[::]:9000", "http-addr": "127.0.0.1:8080"},
			noted: []string{"legacy clients are served at [::]:9000"},
		},
		"both addresses": {
			args: "--http-addr 10.0.0.7:8443 --legacy-allow 10.0.0.0/8", env: env{"BROKER_HOST": "10.0.0.7"},
			want:  env{"legacy-http-addr": "10.0.0.7:8080", "legacy-allow": "10.0.0.0/8", "http-addr": "10.0.0.7:8443"},
			noted: []string{"networks only: 10.0.0.0/8 (--legacy-allow); the API is at 10.0.0.7:8443"},
		},
		"the address is taken": {
			args: "--http-addr 10.0.0.7:8080", env: env{"BROKER_HOST": "10.0.0.7"}, want: env{"legacy-http-addr": "", "http-addr": "10.0.0.7:8080"},
		},
		"loopback with certificates": {
			args: "--tls-cert n1.crt", env: env{"BROKER_PORT": "9000"}, want: env{"legacy-http-addr": "127.0.0.1:9000", "legacy-allow": "", "http-addr": "127.0.0.1:8080"},
			noted: []string{"from these networks only: loopback"},
		},
		"at once":  {env: env{"GROUP_COMMIT_INTERVAL_MS": "0"}, want: env{"flush-interval": "1ms"}},
		"no limit": {env: env{"S3_MAX_WRITES_PER_MINUTE": "0"}, want: env{"bucket-writes-per-minute": "0"}},
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
			check(t, err)
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
		"both":         {env{"S3_BUCKET": "s", "GCS_BUCKET": "g"}, "cannot be combined"},
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
		"a third of --broker-timeout":                {"STORAGE_BACKEND": "memory", "BROKER_HEARTBEAT_INTERVAL_MS": "10000", "BROKER_PORT": "18993"},
	} {
		var out, errOut strings.Builder
		env["OSQUEUE_DATA"] = t.TempDir()
		g := &view.Globals{Out: &out, Err: &errOut, Getenv: func(name string) string { return env[name] }}
		if code := runServe(t.Context(), g); code != view.ExitUsage || !strings.Contains(errOut.String(), want) {
			t.Errorf("%v: %d %s", env, code, errOut.String())
		}
	}
}

// freeAddresses returns two free addresses on loopback.
func freeAddresses(t *testing.T) (all [2]string) {
	t.Helper()
	for i := range all {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		defer ln.Close() // after both are open
		all[i] = ln.Addr().String()
	}
	return all
}

// With that environment alone there is a broker of one node, and its clients find
// it: on loopback by the API itself, elsewhere by the listener for them.
func TestServeAsTheOriginalDoes(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "0.0.0.0"} {
		t.Run(host, func(t *testing.T) { serveAsTheOriginal(t, host) })
	}
}

func serveAsTheOriginal(t *testing.T, host string) {
	free := freeAddresses(t)
	address := free[0]
	_, port, _ := net.SplitHostPort(address)
	env := map[string]string{
		"BROKER_HOST": host, "BROKER_PORT": port, "STORAGE_BACKEND": "memory", "S3_MAX_WRITES_PER_MINUTE": "600",
		"OSQUEUE_DATA": t.TempDir(), "OSQUEUE_RAFT_ADDR": "127.0.0.1:0", // so that it does not meet others
	}
	of, native := address, http.StatusOK // the address of the broker, and the status of routes that only the API has
	if host == "0.0.0.0" {
		of = free[1]
		env["OSQUEUE_HTTP_ADDR"], native = of, http.StatusForbidden
		env["OSQUEUE_BUCKET"], env["OSQUEUE_ACK"] = "file://"+t.TempDir(), "object" // mem:// is that of the process, and has a broker
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
		check(t, err)
		r.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		check(t, err)
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
		"/v1/stats": `"brokerAddress":"` + of + `"`, "/v1/throttle-stats": `"dailyBudgetExceeded":false`, "/status": `"ack":"object"`,
	} {
		if status, answer := ask("GET", path, ""); status != http.StatusOK || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	if status, answer := ask("GET", "/v1/queues", ""); status != native {
		t.Errorf("/v1/queues: %d %s", status, answer)
	}
	stop()
	if got := <-code; got != view.ExitOK {
		t.Errorf("it ended with %d: %s", got, errOut.String())
	}
	if told := strings.Count(errOut.String(), "legacy clients are served at"); told > 1 || (told == 1) != (native == http.StatusForbidden) {
		t.Errorf("it says %d times where legacy clients are served: %s", told, errOut.String())
	}
}

// Addresses that other machines reach need certificates, and the one for legacy clients a list
// of networks.
func TestExposedAddresses(t *testing.T) {
	for flags, want := range map[string]string{
		"":                                 "",
		"--http-addr 10.0.0.7:9000":        "has no certificate",
		"--raft-addr 10.0.0.7:9000":        "has no certificate",
		"--legacy-http-addr 10.0.0.7:9000": "name their networks with --legacy-allow",
		"--legacy-http-addr :9000":         "name their networks with --legacy-allow",
		"--legacy-http-addr 9000":          "write host:port",
		"--legacy-http-addr 10.0.0.7:9000 --legacy-allow private":               "",
		"--legacy-http-addr 10.0.0.7:9000 --legacy-allow 0.0.0.0/0,::/0":        "",
		"--legacy-http-addr 127.0.0.2:9000":                                     "",
		"--legacy-http-addr 127.0.0.2:9000 --legacy-allow loopback,10.0.0.7/32": "",
		"--legacy-http-addr 127.0.0.2:9000 --legacy-allow 10.0.0.7/8":           `"10.0.0.7/8" is not a network`,
		"--legacy-http-addr 127.0.0.2:9000 --legacy-allow 10.0.0.7":             `"10.0.0.7" is not a network`,
		"--legacy-http-addr 127.0.0.2:9000 --legacy-allow lan":                  `"lan" is not a network`,
		"--legacy-http-addr 127.0.0.2:9000 --legacy-allow ::ffff:10.0.0.0/104":  "is not a network",
		"--legacy-http-addr 127.0.0.2:9000 --legacy-types [":                    "is not a pattern",
		"--legacy-http-addr 127.0.0.2:9000 --legacy-types mail,":                "write patterns of types",
		"--legacy-allow private":                                                "give --legacy-http-addr too",
	} {
		err := CheckFlags(&view.Globals{Err: io.Discard, Getenv: func(string) string { return "" }}, strings.Fields(flags))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", flags, err, want)
		}
	}
}
