package serve

import (
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"osqueue/cmd/osqueue/view"
)

// started returns a reloader of options that are loaded as for a start.
func started(t *testing.T, env map[string]string, args ...string) *reloader {
	t.Helper()
	g := &view.Globals{Err: io.Discard, Getenv: func(name string) string { return env[name] }}
	o := newOptions()
	f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	o.bind(f)
	check(t, f.Parse(args))
	check(t, o.load(f, g.Getenv))
	check(t, o.complete(g))
	r := newReloader(g, o)
	t.Cleanup(r.close)
	return r
}

// A reload reads what a start would read: values of flags and the environment stay, those of the file change, and a field that is
// gone has its default.
func TestReloadReadsTheFileOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "n1.yaml")
	write(t, file, "bucket: mem://\nmax-attempts: 4\nmax-payload: 7\nlease: 1m\nprogram-types: [x]\n")
	env := map[string]string{"OSQUEUE_MAX_ATTEMPTS": "6", "OSQUEUE_CONFIG": file, "S3_MAX_WRITES_PER_DAY": "9"}
	r := started(t, env, "--lease", "2m", "--max-jobs=auto", "--max-flush-lag=0", "--inbox-types=a,b", "--bucket-load=0")
	write(t, file, "bucket: mem://other\nmax-attempts: 5\nlease: 3m\nlog-level: debug\n")
	next, err := r.read()
	check(t, err)
	for name, want := range map[string]string{
		"max-attempts": "6", "lease": "2m", "max-payload": "0", "bucket": "mem://other", "program-types": "[command,python]",
		"max-jobs": "auto", "max-flush-lag": "", "inbox-types": "[a,b]", "bucket-writes-per-day": "9", "log-level": "debug",
	} {
		if got := next.flags.Lookup(name).Value.String(); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := differing(r.o, next); !slices.Equal(got, []string{"bucket", "program-types", "max-payload", "log-level"}) {
		t.Errorf("these differ: %v", got)
	}
	for text, want := range map[string]string{
		"bucket: mem://\nmax-job: 3":            "did you mean max-jobs",
		"bucket: mem://\nflush-interval: 1h":    "must not be longer than",
		"bucket: mem://\nroles-file: none.yaml": "--roles-file",
	} {
		write(t, file, text)
		if _, err := r.read(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Each setting can be set to the text that it has.
func TestValuesSurviveTheirText(t *testing.T) {
	o := newOptions()
	o.bind(pflag.NewFlagSet("serve", pflag.ContinueOnError))
	o.flags.VisitAll(func(f *pflag.Flag) {
		if f.Value.String() == "" && f.DefValue == "" && f.Value.Type() == "duration" {
			check(t, f.Value.Set("90s"))
		}
		f.Changed = true
	})
	to, err := o.copyGiven()
	check(t, err)
	if got := differing(o, to); len(got) != 0 {
		t.Errorf("these differ: %v", got)
	}
}

// All settings that a reload changes exist.
func TestReloadedSettingsExist(t *testing.T) {
	o := newOptions()
	o.bind(pflag.NewFlagSet("serve", pflag.ContinueOnError))
	for _, name := range reloaded {
		if o.flags.Lookup(name) == nil {
			t.Errorf("%s is no setting", name)
		}
	}
}
