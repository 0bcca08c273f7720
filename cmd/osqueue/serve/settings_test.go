package serve

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	b.WriteString(settingsHead)
	for _, g := range o.settings() {
		fmt.Fprintf(&b, "\n## %s\n\n| setting | default | meaning |\n|---|---|---|\n", g.title)
		for _, s := range append(g.shown, g.hidden...) {
			value := flags.Lookup(s.name).DefValue
			if value != "" && value != "[]" {
				value = "`" + value + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.name, value, strings.ReplaceAll(s.usage, "|", `\|`))
		}
	}
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != b.String() {
		t.Errorf("docs/settings.md is not the table (%v); run: go test ./cmd/osqueue/serve -run TestPageOfTheSettings -update", err)
	}
}

const settingsHead = `# Settings of a node

Each setting of ` + "`osqueue serve`" + ` is a flag (` + "`--raft-addr`" + `), an environment variable (` + "`OSQUEUE_RAFT_ADDR`" + `) and a field of the YAML file of
` + "`--config`" + ` (` + "`raft-addr`" + `). A flag comes before the environment, the environment before the file. ` + "`osqueue serve --help`" + ` shows the
settings that most clusters need; this page has all of them, and ` + "`go test ./cmd/osqueue/serve -update`" + ` writes it.
`

// The help has at most 50 flags, in groups.
func TestHelpShowsFewFlags(t *testing.T) {
	got := clitest.NewCommand(t, Commands).Run("serve", "--help")
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
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"bucket": "s3://jobs/prod", "peers": "n1=10.0.0.1:8080,n2=10.0.0.2:8080", "program-types": `[a,"b,c"]`, "log-json": "true",
		"max-attempts": "6", "lease": "2m", "max-jobs": "auto", "raft-trailing-logs": "100",
	} {
		if got := f.Lookup(name).Value.String(); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	for text, want := range map[string]string{
		"bukcet: x":              `line 1: unknown setting "bukcet"`,
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
	if got := clitest.NewCommand(t, Commands).Run("serve", "--config", file+".none"); got.Code != view.ExitUsage || !strings.Contains(got.Err, "no such file") {
		t.Errorf("%+v", got)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
