package work

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/net/http/httpguts"

	"osqueue/client/worker"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/runner"
	"osqueue/internal/sandbox"
)

// workerJob configures how jobs of one type run. Exactly one of Exec, HTTP, Python and
// Commands is given.
type workerJob struct {
	Type, Exec, HTTP string
	Python, Commands bool

	Concurrency int // jobs of the type at once; 0: no bound of its own

	OnExit     []string      // of Exec
	Allow      []string      // of HTTP: networks
	Timeout    time.Duration // of HTTP
	HeaderFile string        // of HTTP

	Sandbox string
	Net     string // of commands in a sandbox
	Limits  sandbox.Limits

	source string // the line of the file; "": of the flags
}

// bind adds a flag for each field of a job in the file of --config.
func (j *workerJob) bind(flags *pflag.FlagSet) {
	flags.StringVar(&j.Type, "type", "", "")
	flags.StringVar(&j.Exec, "exec", "", "")
	flags.StringVar(&j.HTTP, "http", "", "")
	flags.BoolVar(&j.Python, "python", false, "")
	flags.BoolVar(&j.Commands, "commands", false, "")
	flags.Var(view.From(&j.Concurrency, 1), "concurrency", "")
	flags.StringArrayVar(&j.OnExit, "on-exit", nil, "")
	flags.StringArrayVar(&j.Allow, "allow", nil, "")
	flags.Var(view.Span(&j.Timeout), "timeout", "")
	flags.StringVar(&j.HeaderFile, "header-file", "", "")
	flags.StringVar(&j.Sandbox, "sandbox", "", "")
	flags.StringVar(&j.Net, "net", "", "")
	bindLimits(flags, &j.Limits)
}

// String names a job for messages.
func (j workerJob) String() string {
	switch {
	case j.Exec != "":
		return "exec " + j.Type + "=" + j.Exec
	case j.HTTP != "":
		return "http " + j.Type + "=" + redacted(j.HTTP)
	case j.Python:
		return "python " + j.Type
	}
	return "commands " + j.Type
}

func describeJobs(jobs []workerJob) string {
	texts := make([]string, len(jobs))
	for i, j := range jobs {
		texts[i] = j.String()
	}
	return strings.Join(texts, "; ")
}

var errJobKind = errors.New("a job needs exactly one of exec, http, python and commands, and a type")

func (j workerJob) check() error {
	kinds := 0
	for _, given := range []bool{j.Exec != "", j.HTTP != "", j.Python, j.Commands} {
		if given {
			kinds++
		}
	}
	if kinds != 1 || j.Type == "" {
		return errJobKind
	}
	if j.Concurrency > 0 && j.Type == "*" {
		return fmt.Errorf("%s: concurrency is not possible for *", j)
	}
	if j.Exec == "" && len(j.OnExit) > 0 || j.HTTP == "" && (len(j.Allow) > 0 || j.Timeout != 0 || j.HeaderFile != "") {
		return fmt.Errorf("%s: on-exit needs exec; allow, timeout and header-file need http", j)
	}
	if j.Sandbox != "" {
		_, err := sandbox.ParseLevel(j.Sandbox)
		return err
	}
	return nil
}

// handler returns the handler, and makes the box that it needs.
func (j workerJob) handler(ctx context.Context, boxes *workerBoxes) (worker.HandlerFunc, error) {
	if j.HTTP != "" {
		allow, err := parseNetworks(j.Allow)
		if err != nil {
			return nil, err
		}
		header, err := readHeaderFile(j.HeaderFile)
		if err != nil {
			return nil, err
		}
		return runner.HTTP(j.HTTP, runner.HTTPConfig{Timeout: j.Timeout, Allow: allow, Header: header})
	}
	box, err := boxes.get(ctx, boxKey{sandbox.Level(j.Sandbox), sandbox.Net(j.Net), j.Limits})
	if err != nil {
		return nil, err
	}
	switch {
	case j.Python:
		return runner.Python(box, "")
	case j.Commands:
		return runner.Commands(box), nil
	}
	exits, err := runner.ParseExits(j.OnExit)
	if err != nil {
		return nil, err
	}
	return runner.CommandWith(runner.CommandConfig{Box: box, OnExit: exits}, j.Exec)
}

// workerBoxes makes each box once. Only one goroutine may use it.
type workerBoxes struct {
	base  sandbox.Config
	log   *slog.Logger
	boxes map[boxKey]*sandbox.Box
}

type boxKey struct {
	level  sandbox.Level // or safest
	net    sandbox.Net
	limits sandbox.Limits
}

// safest stands for the level namespace where the machine can provide it, else process.
const safest = "safest"

func (b *workerBoxes) get(ctx context.Context, key boxKey) (*sandbox.Box, error) {
	if box := b.boxes[key]; box != nil {
		return box, nil
	}
	box, err := b.open(ctx, key)
	if err != nil {
		return nil, err
	}
	if b.boxes == nil {
		b.boxes = make(map[boxKey]*sandbox.Box)
	}
	b.boxes[key] = box
	if box.Level() != sandbox.None {
		b.log.Info("sandbox", "level", box.Describe())
	}
	return box, nil
}

// open makes a box.
func (b *workerBoxes) open(ctx context.Context, key boxKey) (*sandbox.Box, error) {
	cfg := b.base
	cfg.Level, cfg.Net, cfg.Limits = key.level, key.net, key.limits
	if key.level != safest {
		return sandbox.New(ctx, cfg)
	}
	cfg.Level = sandbox.Namespace
	box, err := sandbox.New(ctx, cfg)
	if err == nil || ctx.Err() != nil {
		return box, err
	}
	b.log.Warn("commands run at the level process, because this machine does not support namespace", "error", err)
	cfg.Level = sandbox.Process
	return sandbox.New(ctx, cfg)
}

func (b *workerBoxes) close() error {
	var errs []error
	for _, box := range b.boxes {
		errs = append(errs, box.Close())
	}
	return errors.Join(errs...)
}

func parseNetworks(texts []string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("network %q: write it as in 10.0.0.0/8", text)
		}
		list = append(list, p)
	}
	return list, nil
}

// headerFileMax bounds a file of headers, in bytes.
const headerFileMax = 64 << 10

// readHeaderFile reads headers from a file, one NAME: VALUE a line. Blank lines and lines that
// begin with # are skipped. Errors name the line and never show a value.
func readHeaderFile(path string) (http.Header, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("file of headers: %w", err)
	}
	if len(data) > headerFileMax {
		return nil, fmt.Errorf("file of headers %s: has %d bytes; at most %d are allowed", path, len(data), headerFileMax)
	}
	header := make(http.Header)
	number := 0
	for line := range bytes.Lines(data) {
		number++
		text := strings.TrimSpace(string(line))
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		name, value, found := strings.Cut(text, ":")
		value = strings.TrimSpace(value)
		if !found || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("file of headers %s, line %d: write NAME: VALUE, for example Authorization: Bearer …", path, number)
		}
		header.Add(name, value)
	}
	return header, nil
}

// redacted returns a URL for messages: without a password and the values of its parameters,
// which may be secrets.
func redacted(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	if u.RawQuery != "" {
		u.RawQuery = "xxxxx"
	}
	return u.Redacted()
}
