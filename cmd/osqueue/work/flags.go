package work

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"osqueue/client/contexts"
	"osqueue/client/worker"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/runner"
	"osqueue/internal/sandbox"
)

// workerFlags are the flags of "osqueue worker".
type workerFlags struct {
	exec, http, python, commands []string // TYPE=… or TYPE
	onExit                       []string
	httpAllow                    []string
	httpHeaders                  []string // TYPE=FILE
	httpTimeout                  time.Duration
	configFile                   string
	settings                     *pflag.FlagSet // all flags but --config

	concurrency int
	prefetch    int
	perType     []string // TYPE=N
	name        string
	lease       time.Duration
	pollWait    time.Duration
	stopTimeout time.Duration
	quiet       bool
	verbose     bool
	metricsAddr string

	level   string // of all jobs; "": what suits each kind
	net     string // of all jobs; "": what suits each kind
	uids    string
	limits  sandbox.Limits
	sandbox sandbox.Config // without level
	jobs    []workerJob    // of the flags and the file
}

func (f *workerFlags) bind(all *pflag.FlagSet) {
	flags := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	flags.SortFlags = false
	f.settings = flags
	flags.StringArrayVar(&f.exec, "exec", nil, "TYPE=COMMAND; may be given several times")
	flags.StringArrayVar(&f.http, "http", nil, "TYPE=URL of a service; may be given several times")
	flags.StringArrayVar(&f.httpHeaders, "http-header-file", nil, "TYPE=FILE with lines NAME: VALUE, headers for the service of --http, such as Authorization: every user of the machine can read the command line; may be given several times")
	flags.StringArrayVar(&f.python, "python", nil, "TYPE of jobs that are Python functions; may be given several times")
	flags.StringArrayVar(&f.commands, "commands", nil, "TYPE of jobs whose payload is a command; may be given several times")
	flags.StringArrayVar(&f.onExit, "on-exit", nil, "CODE=fail, dead, suspend, retry or retry:DELAY: effect of an exit status of --exec; * is all others")
	flags.StringArrayVar(&f.httpAllow, "http-allow", nil, "network (CIDR) that is not public, but whose services may be called")
	view.SpanVar(flags, &f.httpTimeout, "http-timeout", runner.DefaultHTTPTimeout, "maximum time of a service for a job")
	flags.Var(view.From(&f.concurrency, 1), "concurrency", "maximum number of running jobs (default: number of CPUs)")
	flags.StringArrayVar(&f.perType, "per-type", nil, "TYPE=N: maximum number of running jobs of a type, within --concurrency; may be given several times")
	flags.IntVar(&f.prefetch, "prefetch", 0, "number of jobs to claim ahead; for many short jobs")
	flags.StringVar(&f.name, "name", "", "name of the worker (default: host, process and a random part)")
	view.SpanVar(flags, &f.lease, "lease", 0, "lease of a claim without heartbeats (default: the job's, then the server's)")
	view.SpanVar(flags, &f.pollWait, "poll-wait", worker.DefaultPollWait, "how long a claim waits at the server for a job; 0 is the default")
	view.SpanVar(flags, &f.stopTimeout, "stop-timeout", worker.DefaultStopTimeout, "maximum time of running jobs after Ctrl-C")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "do not write a line for each job")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "log repeated messages too")
	flags.StringVar(&f.metricsAddr, "metrics-addr", "", "host:port that serves metrics for Prometheus under /metrics, without TLS or tokens; port 0 takes a free one (default: none)")
	f.bindSandbox(flags)
	all.AddFlagSet(flags)
	all.StringVar(&f.configFile, "config", "", "file (YAML) with jobs and settings, each with the name of its flag; flags come before its settings, and paths in it count from its directory")
}

func (f *workerFlags) bindSandbox(flags *pflag.FlagSet) {
	flags.StringVar(&f.level, "sandbox", "", "none, process or namespace (default: none for --exec; for --python and --commands namespace where the machine can, else process)")
	flags.StringVar(&f.net, "sandbox-net", "", "none or host, the network of commands in a sandbox (default: host for --exec in process, else none)")
	flags.BoolVar(&f.sandbox.RequireCgroup, "require-cgroup", false, "do not start unless control groups bound the memory and processes of every command in a sandbox")
	flags.BoolVar(&f.sandbox.RequireLandlock, "require-landlock", false, "do not start unless the kernel has Landlock, which keeps commands away from files")
	flags.BoolVar(&f.sandbox.NoLandlock, "no-landlock", false, "let commands in process reach all files that their user may reach")
	flags.StringVar(&f.uids, "sandbox-uids", "", "FIRST-LAST, unused user ids, for the commands of a worker that is root (default: 1900000000-1900001023)")
	flags.StringVar(&f.sandbox.Dir, "sandbox-dir", "", "parent of the directories of commands (default: that of temporary files)")
	flags.StringArrayVar(&f.sandbox.Env, "sandbox-env", nil, "variable that commands in a sandbox get too; may be given several times")
	flags.StringArrayVar(&f.sandbox.ReadOnly, "sandbox-ro", nil, "file or directory that commands in a sandbox may read too; may be given several times")
	flags.BoolVar(&f.sandbox.NoCgroup, "no-cgroup", false, "do not use control groups")
	flags.IntVar(&f.sandbox.CPUWeight, "cpu-weight", 0, "CPU weight of all commands together, 1 to 10000, against other processes in the worker's control group; the worker has 100 (default: 100)")
	flags.IntVar(&f.sandbox.IOWeight, "io-weight", 0, "I/O weight of all commands together; needs a kernel and a disk with weights (default: 100)")
	bindLimits(flags, &f.limits)
}

func (f *workerFlags) config(version string, finished func(worker.Finished), log *slog.Logger) worker.Config {
	return worker.Config{
		Name:        f.name,
		Concurrency: f.concurrency,
		Prefetch:    f.prefetch,
		PerType:     f.bounds(),
		Lease:       f.lease,
		PollWait:    f.pollWait,
		StopTimeout: orNegative(f.stopTimeout),
		Version:     version,
		Finished:    finished,
		Logger:      log,
	}
}

// gather appends the jobs of the flags to those of the file, and converts the sandbox
// flags into its configuration.
func (f *workerFlags) gather() error {
	for _, kind := range []struct {
		name  string
		specs []string
		set   func(job *workerJob, rest string)
	}{
		{"exec", f.exec, func(j *workerJob, rest string) { j.Exec, j.OnExit = rest, f.onExit }},
		{"http", f.http, func(j *workerJob, rest string) { j.HTTP = rest }},
		{"python", f.python, func(j *workerJob, _ string) { j.Python = true }},
		{"commands", f.commands, func(j *workerJob, _ string) { j.Commands = true }},
	} {
		for _, spec := range kind.specs {
			jobType, rest, found := strings.Cut(spec, "=")
			wants := kind.name == "exec" || kind.name == "http"
			if jobType == "" || found != wants || wants && rest == "" {
				form := "TYPE"
				if wants {
					form = "TYPE=" + map[string]string{"exec": "COMMAND", "http": "URL"}[kind.name]
				}
				return fmt.Errorf("--%s %q: write %s, with * for all types", kind.name, spec, form)
			}
			job := workerJob{Type: jobType}
			kind.set(&job, rest)
			f.jobs = append(f.jobs, job)
		}
	}
	if err := f.gatherHeaders(); err != nil {
		return err
	}
	for i := range f.jobs {
		f.jobs[i].inherit(f)
	}
	if err := f.gatherBounds(); err != nil {
		return err
	}
	if err := f.gatherSandbox(); err != nil {
		return err
	}
	return f.checkTypes()
}

// checkTypes refuses no jobs, and two with the same type.
func (f *workerFlags) checkTypes() error {
	if len(f.jobs) == 0 {
		return errors.New("no job type given: give --exec 'TYPE=COMMAND', for example --exec 'wc=wc -w', or --http, --python, --commands, --config")
	}
	taken := make(map[string]bool)
	for _, job := range f.jobs {
		if taken[job.Type] {
			return fmt.Errorf("%s: type %s is given twice", job, job.Type)
		}
		taken[job.Type] = true
	}
	return nil
}

// gatherHeaders assigns the files of --http-header-file to their jobs.
func (f *workerFlags) gatherHeaders() error {
	for _, spec := range f.httpHeaders {
		jobType, file, _ := strings.Cut(spec, "=")
		i := slices.IndexFunc(f.jobs, func(j workerJob) bool { return j.Type == jobType && j.HTTP != "" })
		if i < 0 || file == "" {
			return fmt.Errorf("--http-header-file %q: write TYPE=FILE, with a TYPE that --http has too", spec)
		}
		f.jobs[i].HeaderFile = file
	}
	return nil
}

// gatherBounds assigns the bounds of --per-type to their jobs.
func (f *workerFlags) gatherBounds() error {
	all := slices.ContainsFunc(f.jobs, func(j workerJob) bool { return j.Type == "*" })
	if all && (len(f.perType) > 0 || len(f.bounds()) > 0) {
		return errors.New("a type cannot have its own limit if * is given too: a claim of all types cannot leave one out")
	}
	for _, spec := range f.perType {
		jobType, number, _ := strings.Cut(spec, "=")
		n, err := strconv.Atoi(number)
		i := slices.IndexFunc(f.jobs, func(j workerJob) bool { return j.Type == jobType })
		if err != nil || n < 1 || i < 0 || jobType == "*" {
			return fmt.Errorf("--per-type %q: write TYPE=N, with a TYPE that is given otherwise, and not *", spec)
		}
		f.jobs[i].Concurrency = n
	}
	return nil
}

func (f *workerFlags) bounds() map[string]int {
	bounds := make(map[string]int)
	for _, j := range f.jobs {
		if j.Concurrency > 0 {
			bounds[j.Type] = j.Concurrency
		}
	}
	return bounds
}

func (f *workerFlags) gatherSandbox() error {
	if f.level != "" {
		if _, err := sandbox.ParseLevel(f.level); err != nil {
			return err
		}
	}
	for _, j := range f.jobs {
		if _, err := sandbox.ParseNet(j.Net); err != nil {
			return fmt.Errorf("%s: %w", j, err)
		}
	}
	if f.uids == "" {
		return nil
	}
	first, last, _ := strings.Cut(f.uids, "-")
	from, err := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if err != nil || err2 != nil || to < from {
		return fmt.Errorf("--sandbox-uids %q: write FIRST-LAST", f.uids)
	}
	f.sandbox.UIDs = sandbox.UIDRange{First: from, Count: to - from + 1}
	return nil
}

// inherit fills the fields that are not set from the settings for all jobs.
func (j *workerJob) inherit(f *workerFlags) {
	if j.Sandbox == "" {
		j.Sandbox = f.level
	}
	if j.Sandbox == "" {
		j.Sandbox = string(sandbox.None)
		if j.Python || j.Commands {
			j.Sandbox = safest // the operator has not written the program
		}
	}
	if j.Net == "" {
		j.Net = f.net
	}
	if j.Net == "" {
		j.Net = string(sandbox.NetNone)
		if j.Exec != "" && j.Sandbox == string(sandbox.Process) {
			j.Net = string(sandbox.NetHost) // the operator has written the command
		}
	}
	if j.Timeout == 0 {
		j.Timeout = f.httpTimeout
	}
	if len(j.Allow) == 0 {
		j.Allow = f.httpAllow
	}
	j.Limits = above(j.Limits, f.limits)
}

// orNegative turns 0, which Config replaces by its default, into a negative value, which
// means none.
func orNegative(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// inFile are the flags of all commands that the file of --config may have, so that it says where the cluster is.
var inFile = []string{"servers", "context", "ca", "cert", "key", "token-file", "keys", "sealed-only"}

// load reads the environment of the flags of inFile, and the file of --config, if given. docs/examples/worker.yaml explains
// the file: its fields are flags of the worker, limits are those with limit- in front, and jobs are added to those of the
// flags.
func (f *workerFlags) load(cmd *cobra.Command, getenv func(string) string) error {
	shared := pflag.NewFlagSet("shared", pflag.ContinueOnError)
	for _, name := range inFile {
		flag := cmd.Flag(name)
		f.settings.AddFlag(flag)
		switch {
		case name != "token-file":
			shared.AddFlag(flag)
		case getenv(contexts.EnvToken) != "" && !flag.Changed: // it has a token, and no file
			flag.Changed = true
			view.SetSource(flag, contexts.EnvToken)
		}
	}
	if err := view.FromEnv(shared, getenv); err != nil || f.configFile == "" {
		return err
	}
	fields, err := view.ReadFields(f.configFile)
	if err == nil {
		err = f.readFields(fields)
	}
	if err != nil {
		return view.Usagef("--config %s: %w", f.configFile, err)
	}
	return nil
}

func (f *workerFlags) readFields(fields *view.Fields) error {
	jobs, sources, err := fields.TakeList("jobs")
	errs := []error{err, setWithLimits(fields, f.settings)}
	for i, one := range jobs {
		job := workerJob{source: sources[i]}
		flags := pflag.NewFlagSet("job", pflag.ContinueOnError)
		job.bind(flags)
		if err := cmp.Or(setWithLimits(one, flags), job.check()); err != nil {
			errs = append(errs, fmt.Errorf("job %d: %w", i+1, err))
		}
		f.jobs = append(f.jobs, job)
	}
	return errors.Join(errs...)
}

// setWithLimits sets flags to fields, of which limits has some without limit- in front.
func setWithLimits(fields *view.Fields, flags *pflag.FlagSet) error {
	if err := fields.Unfold("limits", "limit-"); err != nil {
		return err
	}
	return fields.Set(flags)
}

// Settings adds the flags of the worker to flags, and returns them for osqueue config.
func Settings(g *view.Globals, flags *pflag.FlagSet) view.Settings {
	f := &workerFlags{}
	f.bind(flags)
	return view.Settings{
		Flags: f.settings,
		File:  &f.configFile,
		Load:  func(cmd *cobra.Command) error { return f.load(cmd, g.Getenv) },
		Check: func() ([]string, error) { return nil, f.gather() },
		More: func() (lines []view.SettingLine) {
			for _, j := range f.jobs {
				lines = append(lines, view.SettingLine{Setting: "jobs", Value: j.String(), Source: j.source})
			}
			return lines
		},
		Redact: func(name, value string) string {
			if name == "http" {
				return secretParts.ReplaceAllString(value, "${1}xxxxx")
			}
			return value
		},
	}
}

// secretParts matches what may be secret in a list of URLs.
var secretParts = regexp.MustCompile(`(://|\?)[^/@?,\]]*@|(\?)[^,\]]*`)

// bindLimits adds the flags of limits.
func bindLimits(flags *pflag.FlagSet, l *sandbox.Limits) {
	d := sandbox.DefaultLimits()
	size := func(n int64) string { return " (default: " + view.SizeText(n) + ")" }
	count := func(n int64) string { return fmt.Sprintf(" (default: %d)", n) }
	flags.Var(view.Span(&l.Timeout), "limit-time", "run time of a command (default: that of its job)")
	flags.Var(view.Span(&l.CPU), "limit-cpu", "CPU time of a process (default: "+d.CPU.String()+")")
	flags.Var(view.Size(&l.Memory), "limit-memory", "memory of a process; with a control group that of a command"+size(d.Memory))
	flags.Var(view.From(&l.Files, 0), "limit-files", "open files of a process"+count(d.Files))
	flags.Var(view.From(&l.Processes, 0), "limit-processes", "processes and threads of a command"+count(d.Processes))
	flags.Var(view.Size(&l.FileSize), "limit-file-size", "one file"+size(d.FileSize))
	flags.Var(view.Size(&l.Disk), "limit-disk", "the directory of a command"+size(d.Disk))
	flags.Var(view.Size(&l.Output), "limit-output", "stdout of a command, which ends if it writes more"+size(int64(d.Output)))
	flags.Var(view.Size(&l.Log), "limit-log", "size of the end of stderr that is kept"+size(int64(d.Log)))
}

// above returns l with the limits that are not set taken from others.
func above(l, others sandbox.Limits) sandbox.Limits {
	return sandbox.Limits{
		Timeout: cmp.Or(l.Timeout, others.Timeout), CPU: cmp.Or(l.CPU, others.CPU), Memory: cmp.Or(l.Memory, others.Memory),
		Files: cmp.Or(l.Files, others.Files), Processes: cmp.Or(l.Processes, others.Processes),
		FileSize: cmp.Or(l.FileSize, others.FileSize), Disk: cmp.Or(l.Disk, others.Disk),
		Output: cmp.Or(l.Output, others.Output), Log: cmp.Or(l.Log, others.Log),
	}
}
