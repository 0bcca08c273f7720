package serve

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"osqueue/cluster"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

var update = flag.Bool("update", false, "write docs/settings.md")

// The page of the settings is made of the table.
func TestPageOfTheSettings(t *testing.T) {
	const page = "../../../docs/settings.md"
	o := newOptions()
	flags := newServeCommand(&view.Globals{}).Flags()
	var b strings.Builder
	b.WriteString(strings.Replace(settingsHead, "@", "`"+strings.Join(reloaded, "`, `")+"`", 1))
	for _, g := range o.settings() {
		fmt.Fprintf(&b, "\n### %s\n\n| setting | default | meaning |\n|---|---|---|\n", g.title)
		for _, s := range append(g.shown, g.hidden...) {
			value := flags.Lookup(s.name).DefValue
			if value != "" && value != "[]" {
				value = "`" + value + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.name, value, strings.ReplaceAll(s.usage, "|", `\|`))
		}
	}
	if *update {
		check(t, os.WriteFile(page, []byte(b.String()), 0o644))
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != b.String() {
		t.Errorf("docs/settings.md is not the table (%v); run: go test ./cmd/osqueue/serve -run TestPageOfTheSettings -update", err)
	}
}

var settingsHead = strings.ReplaceAll(`# Settings of a node

## From nothing to a node

    $ osqueue init --node n1=127.0.0.1 --bucket file:///srv/osqueue
    $ osqueue serve --config certs/n1.yaml

|init| makes the certificates, the first token and the file of settings of each node. The next lines of its output make a context,
so that |osqueue status| finds the node. For three machines see [start.md](operations/start.md).

    $ osqueue config show serve --config certs/n1.yaml     # every setting, its value, and where that comes from
    $ osqueue config check serve --config certs/n1.yaml    # the mistakes that a start would report

|config show| and |config check| take the command line of the node without its first word, and start nothing.

## Where a setting comes from

Each setting of |osqueue serve| is a flag (|--raft-addr|), an environment variable (|OSQUEUE_RAFT_ADDR|) and a field of the YAML file of
|--config| (|raft-addr|). A flag comes before the environment, the environment before the file, and the file before the default.

- No file is read unless |--config| or |OSQUEUE_CONFIG| names it: a node never takes settings from a place that its command line does
  not show.
- A relative path in the file counts from the directory of the file. On the command line and in the environment it counts from the
  working directory.
- A field that is no setting is an error, with its line and the settings with the nearest names. So are a value that cannot be read and
  a field that is given twice.
- A list is a YAML list, or one text with commas.

The file of a worker has the same rules: [worker.md](worker.md).

## Changing a running node

A node reads its settings again at SIGHUP (|systemctl reload|, |kill -HUP|), and within 5 s when the file of |--config| or of
|--roles-file| changes. What flags and the environment give stays. If a start would refuse the new settings, the log has the error, and
those in force stay. Otherwise these apply at once:

- @
- certificates: the files of |--tls-ca|, |--tls-cert| and |--tls-key| are read again when they change, and at SIGHUP

The log names the others that have changed: they need a restart of the node. So do the first and the last |oidc-issuer|. Limits
and defaults of jobs are those of the leader: change the files of all nodes.

Types, limits by key, schedules, hooks and tokens are no settings of a node, but part of the queue: [apply.md](operations/apply.md) keeps
them in a file.

## All settings

|osqueue serve --help| shows the settings that most clusters need; the tables have all of them, and
|go test ./cmd/osqueue/serve -update| writes this page.
`, "|", "`")

// The help has at most 50 flags, in groups.
func TestHelpShowsFewFlags(t *testing.T) {
	got := clitest.Tree(Commands).Command(t).Run("serve", "--help")
	shown := strings.Count(got.Out, "\n      --")
	if shown > 50 || shown < 20 || !strings.Contains(got.Out, "\nSecurity:\n") || strings.Contains(got.Out, "--raft-trailing-logs") {
		t.Errorf("%d flags: %s", shown, got.Out)
	}
}

func TestConfigFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "n1.yaml")
	write(t, file, `
name: n1
bucket: s3://jobs/prod
peers: [n1=10.0.0.1:8080, n2=10.0.0.2:8080]
program-types: [a, "b,c"]
log-json: true
max-attempts: 5
lease: 1m30s
max-jobs: auto
raft-trailing-logs: 100 # hidden in the help
`)
	f, _, err := flagsOf(t, "--config "+file+" --lease 2m", map[string]string{"OSQUEUE_MAX_ATTEMPTS": "6", "S3_BUCKET": "legacy"})
	check(t, err)
	for name, want := range map[string]string{
		"bucket": "s3://jobs/prod", "peers": "n1=10.0.0.1:8080,n2=10.0.0.2:8080", "program-types": `[a,"b,c"]`, "log-json": "true",
		"max-attempts": "6", "lease": "2m", "max-jobs": "auto", "raft-trailing-logs": "100",
	} {
		if got := f.Lookup(name).Value.String(); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	for text, want := range map[string]string{
		"bukcet: x":              `line 1: unknown setting "bukcet"; did you mean bucket?`,
		"servers: x":             `unknown setting "servers"`,
		"name: n1\nlease: soon":  `line 2: lease: "soon" is not a duration`,
		"name: {a: b}":           "line 1: name: write a value or a list",
		"name:":                  "line 1: name: write a value or a list",
		"peers: [[a]]":           "line 1: peers: write a list of values",
		"a: b\n---\nc: d":        "more than one YAML document",
		"name: a\nname: b":       "already defined",
		"not yaml at all: [":     "line 1",
		"config: other.yaml":     `unknown setting "config"`,
		"max-attempts: 1.5\n":    "max-attempts",
		"":                       "",
		"# nothing but comments": "",
	} {
		write(t, file, text)
		if _, _, err := flagsOf(t, "--config "+file, nil); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, _, err := flagsOf(t, "--config ../../../docs/examples/serve.yaml", nil); err != nil {
		t.Errorf("the example: %v", err)
	}
	if got := clitest.Tree(Commands).Command(t).Run("serve", "--config", file+".none"); got.Code != view.ExitUsage || !strings.Contains(got.Err, "no such file") {
		t.Errorf("%+v", got)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	check(t, os.WriteFile(file, []byte(text), 0o600))
}

func TestQuotasFollowTheMemory(t *testing.T) {
	for _, c := range []struct {
		args                []string
		memory, jobs, bytes int64
	}{
		{nil, 4 << 30, 1 << 20, 1 << 30},
		{nil, 0, 1 << 20, 1 << 30},
		{nil, 64 << 20, 64 << 10, 64 << 20},
		{[]string{"--max-jobs", "auto", "--max-bytes=auto"}, 16 << 30, 4 << 20, 4 << 30},
		{[]string{"--max-jobs", "0", "--max-bytes=0"}, 16 << 30, 0, 0},
		{[]string{"--max-jobs", "7", "--max-bytes=5MiB"}, 16 << 30, 7, 5 << 20},
	} {
		o := newOptions()
		f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		o.bind(f)
		check(t, f.Parse(c.args))
		if jobs, bytes := o.quotas.of(c.memory); jobs != c.jobs || bytes != c.bytes {
			t.Errorf("%v of %d: %d jobs and %d bytes, want %d and %d", c.args, c.memory, jobs, bytes, c.jobs, c.bytes)
		}
	}
	o := newOptions()
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	o.bind(f)
	for _, bad := range []string{"--max-jobs=-1", "--max-jobs=many", "--max-bytes=-2", "--max-bytes=lots"} {
		if f.Parse([]string{bad}) == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// TestHeartbeats checks the heartbeat and the broker timeout: longer where writes cost money.
func TestHeartbeats(t *testing.T) {
	for line, want := range map[string][2]time.Duration{
		"file:///d":                  {3 * time.Second, 10 * time.Second},
		"s3://b":                     {10 * time.Second, 30 * time.Second},
		"gs://b":                     {10 * time.Second, 30 * time.Second},
		"s3://b --broker-timeout=9s": {3 * time.Second, 9 * time.Second},
		"s3://b --broker-heartbeat=30s --broker-timeout=90s": {30 * time.Second, 90 * time.Second},
	} {
		if _, c := paced(t, line); c.Flush.Heartbeat != want[0] || c.BrokerTimeout != want[1] {
			t.Errorf("%s: %v and %v, want %v", line, c.Flush.Heartbeat, c.BrokerTimeout, want)
		}
	}
}

// paced returns the pace and the configuration that a bucket and flags of pace result in.
func paced(t *testing.T, line string) (*pace, *cluster.Config) {
	t.Helper()
	o := newOptions()
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	o.bind(f)
	if err := f.Parse(append([]string{"--ack=quorum"}, strings.Fields(line)...)); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if err := o.pace.complete(f.Arg(0), &o.node); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return &o.pace, &o.node
}

// A standby whose reads of the bucket are few may never take over.
func TestFewReadsOfTheBucketWarn(t *testing.T) {
	for n, want := range map[int]bool{0: false, 1: true, 10: true, 11: false} {
		o := &serveOptions{}
		o.node.Flush.Heartbeat, o.node.BrokerTimeout = time.Second, time.Minute
		o.budget.ReadsPerMinute = n
		if got := strings.Contains(strings.Join(o.warnings(), "\n"), "--bucket-reads-per-minute "); got != want {
			t.Errorf("%d reads a minute: %q", n, o.warnings())
		}
	}
}

func TestServeRefusesWhatCannotWork(t *testing.T) {
	for line, want := range map[string]string{
		"":                                                                           "--bucket is missing",
		"--bucket ftp://x":                                                           `unknown scheme "ftp"`,
		"--bucket mem:// --max-connections 0":                                        "must be positive",
		"--bucket mem:// extra":                                                      `too many arguments: extra`,
		"--bucket mem:// --body-limit 0":                                             "between 1 and 8388608",
		"--bucket mem:// --http-addr :8080":                                          "--http-advertise",
		"--bucket mem:// --raft-addr :7080":                                          "--raft-advertise",
		"--bucket mem:// --peers n1":                                                 "name=host:port",
		"--bucket mem:// --lease 0":                                                  "must be positive",
		"--bucket mem:// --max-attempts 0":                                           "must be positive",
		"--bucket mem:// --flush-interval 0":                                         "must be positive",
		"--bucket mem:// --flush-interval -1ns":                                      "must not be negative",
		"--bucket mem:// --flush-interval 5s":                                        "must not be longer than --broker-heartbeat, 3s",
		"--bucket mem:// --flush-interval x":                                         "is not a duration",
		"--bucket mem:// --inbox-interval -1s":                                       "must not be negative",
		"--bucket s3://b --inbox-interval 10s --inbox-idle-interval 9s":              "--inbox-idle-interval 9s: must not be shorter than --inbox-interval, 10s",
		"--bucket mem:// --max-flush-lag -1s":                                        `"--max-flush-lag" flag: "-1s": must not be negative`,
		"--bucket mem:// --http-addr 127.0.0.1:0 --max-flush-lag 2s":                 "must be longer than --broker-timeout 10s",
		"--bucket mem:// --broker-heartbeat 0":                                       "--broker-heartbeat 0s: must be positive",
		"--bucket mem:// --bucket-reads-per-minute -1":                               "must be at least 0",
		"--bucket mem:// --bucket-write-timeout 0s":                                  "must be positive",
		"--bucket mem:// --http-addr 127.0.0.1:0 --disk-stall-limit 10ms":            "at least 1s",
		"--bucket mem:// --log-level loud":                                           "use trace, debug",
		"--bucket mem:// --cors-origins dash.test":                                   "is not an origin",
		"--bucket mem:// --ws-message-limit 0":                                       "between 1 and 8388608",
		"--bucket mem:// --http-addr 127.0.0.1:0 --raft-addr 10.0.0.1:7080 --data x": "osqueue init",
	} {
		got := clitest.Tree(Commands).Command(t).Run(append([]string{"serve"}, strings.Fields(line)...)...)
		if got.Code != view.ExitUsage || !strings.Contains(got.Err, want) {
			t.Errorf("serve %s: %+v", line, got)
		}
	}
}
