package work

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/client/worker"
	"osqueue/cmd/osqueue/view"
)

func newWorkerCommand(g *view.Globals) *cobra.Command {
	f := &workerFlags{}
	cmd := &cobra.Command{
		Use:   "worker {--exec 'TYPE=COMMAND' | --http TYPE=URL | --python TYPE | --commands TYPE | --config FILE}…",
		Short: "Run jobs: commands, HTTP services, Python functions",
		Long: `Claims jobs and runs each as the flag for its type says. TYPE is the type of the jobs;
* means all types without a flag of their own, and jobs without type.

--exec runs a command. The payload is its stdin, and its stdout is the result (JSON
unchanged, other text as a JSON string). If the exit status is not 0, the attempt fails,
and the error quotes the end of stderr; otherwise the end of stderr is the log of the
attempt, which "osqueue job show" prints. COMMAND is split into words, and variables are
expanded, as in a shell; for pipes and redirections write TYPE=sh -c '…'. {{.name}} in a
word is the payload's value of that name, always within one argument. The environment
has OSQUEUE_JOB_ID, OSQUEUE_JOB_TYPE, OSQUEUE_ATTEMPT and OSQUEUE_FENCING_TOKEN, a number
that grows with every claim: use it to fence writes to other systems. On exit status 75
the job is retried after 10 s; --on-exit changes the effect of an exit status.

On exit status 79 the job waits, and the attempt does not count. The last line of stdout is
the wait: {"sleep":"72h"} or {"signal":"approved","timeout":"24h"}. Values in "steps" of
that line are kept by name. The next attempt has OSQUEUE_STEPS and OSQUEUE_SIGNALS in its
environment, and OSQUEUE_PARENTS with the results of the jobs before it: JSON objects.

--http posts the payload to a service, and the answer is the result. --python
calls the function of a payload {"code","function","args","kwargs"}. --commands
runs the program of a payload {"argv","stdin","env"}, with the result
{"exit","stdout","stderr"}: every client that may enqueue such jobs, as "osqueue run"
does, runs programs on this machine.

--sandbox isolates commands: none (a process group), process (limits, a separate user
and directory, a clean environment, a filter of system calls, and only the system's
files if the kernel has Landlock) or namespace (also separate namespaces; needs
bubblewrap). By default --exec uses none, and --python and --commands use namespace if
the machine supports it, else process, both without network (see --sandbox-net). The
worker logs one line about the isolation in use. If the machine does not support the
level, the worker does not start. docs/worker.md describes what each level prevents.

If a job is cancelled or released, or exceeds its time, the worker ends the command and
all processes that it has started: with SIGTERM, and SIGKILL two seconds later.

On Ctrl-C or SIGTERM the worker finishes the running jobs within --stop-timeout, ends
and releases the others, and exits. After a second Ctrl-C it exits at once. osqueue
worker ls lists the workers.`,
		Example: `  osqueue worker --exec 'wc=wc -w'
  osqueue worker --exec "thumb=convert -resize 64 -- {{.file}} png:-" --on-exit 3=dead --concurrency 4
  osqueue worker --http notify=http://localhost:9000/notify
  osqueue worker --commands command --sandbox namespace --limit-memory 512MiB`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.load(cmd, g.Getenv); err != nil {
				return err
			}
			if err := f.gather(); err != nil {
				return &view.UsageError{Err: err}
			}
			return runWorker(cmd.Context(), g, f)
		},
	}
	f.bind(cmd.Flags())
	cmd.AddCommand(
		g.Read(view.ListCommand(g, "List the registered workers",
			`Lists the registered workers. RUNNING has the jobs that each runs, and how many it can
run at a time. A worker that is quiet gets no new jobs; one that is gone was declared
dead while it was quiet. With --json each line is one worker.`,
			view.WorkerColumns, view.Whole((*client.Client).Workers), view.WorkerRow)),
		g.Read(view.ShowCommand(g, "NAME", "Show a registered worker and its running jobs",
			"Shows a registered worker, and the first of its running jobs.",
			(*client.Client).Worker, workerRows)),
		newQuietCommand(g), newUnquietCommand(g),
	)
	return cmd
}

func runWorker(ctx context.Context, g *view.Globals, f *workerFlags) (err error) {
	log := newLog(g.Err, f.verbose)
	c, err := g.ClientWith(func(cfg *client.Config) { cfg.Logger = log })
	if err != nil {
		return err
	}
	defer c.Close()
	boxes := &workerBoxes{base: f.sandbox, log: log}
	defer func() { err = errors.Join(err, boxes.close()) }()
	m, err := newWorkerMetrics(ctx, f.metricsAddr, f.concurrency)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	traces, err := openTraces(g.Version, log)
	if err != nil {
		return err
	}
	defer traces.close()
	lines := newJobLines(g, f.quiet)
	w, err := newJobWorker(ctx, traces.Queue(c), f, boxes, log, lines, m)
	if err != nil {
		return err
	}
	w.Use(traces.Middleware)
	m.start(log)
	if err := checkPrograms(ctx, c, f.jobs); err != nil {
		return err
	}
	heedHangup := view.IgnoreHangup(log.Info)
	defer heedHangup()
	awaitSignal := context.AfterFunc(ctx, func() {
		signal.Reset(os.Interrupt, syscall.SIGTERM) // a second one ends the process
		log.Info("stopping; the running jobs are finished first")
	})
	defer awaitSignal()
	log.Info("started", "name", w.Name(), "jobs", describeJobs(f.jobs), "servers", view.ServerName(strings.Join(c.Servers(), ",")))
	greet(ctx, c, w.Name(), log)
	return errors.Join(w.Run(ctx), lines.fault())
}

// newLog returns the log of a worker, in which the control characters of texts are escaped.
func newLog(out io.Writer, verbose bool) *slog.Logger {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level}))
}

// newJobWorker returns a worker with the handlers of the flags.
func newJobWorker(ctx context.Context, q worker.Queue, f *workerFlags, boxes *workerBoxes, log *slog.Logger, lines *jobLines, m *workerMetrics) (*worker.Worker, error) {
	w, err := worker.New(m.queue(q), f.config(lines.g.Version, m.finished(lines.finished), log))
	if err != nil {
		return nil, &view.UsageError{Err: err}
	}
	if m != nil {
		w.Use(m.Middleware)
	}
	for _, job := range f.jobs {
		handler, err := job.handler(ctx, boxes)
		if err != nil {
			return nil, view.Usagef("%s: %w", job, err)
		}
		handler = lines.noteStart(handler)
		if job.Type == "*" {
			w.HandleAny(handler)
		} else {
			w.Handle(job.Type, handler)
		}
	}
	return w, nil
}

// Commands returns the commands of this package, which use the flags and streams of g.
func Commands(g *view.Globals) []*cobra.Command {
	return []*cobra.Command{newWorkerCommand(g)}
}

func workerRows(w v1.Worker) [][]string {
	types := "any"
	if len(w.Types) > 0 {
		types = strings.Join(w.Types, " ")
	}
	rows := [][]string{
		{"name", w.Name},
		{"types", types},
		{"registered", view.ClockTime(w.RegisteredAt)},
		{"last seen", view.ClockTime(w.LastSeen)},
		{"state", view.WorkerState(w)},
		{"running", view.RunningText(w)},
	}
	if w.QuietSince != 0 {
		rows = append(rows, []string{"quiet since", view.ClockTime(w.QuietSince)}, []string{"quieted by", view.OrDash(w.QuietedBy)})
	}
	if w.GoneAt != 0 {
		rows = append(rows, []string{"gone since", view.ClockTime(w.GoneAt)})
	}
	rows = append(rows, view.NonEmptyRows([]string{"version", w.Version}, []string{"address", w.Address})...)
	for _, id := range w.JobIDs {
		rows = append(rows, []string{"job", id})
	}
	return rows
}

func newQuietCommand(g *view.Globals) *cobra.Command {
	cmd := newWorkerSwitch(g, "quiet", (*client.Client).QuietWorker)
	cmd.Short = "Quiet workers: they get no new jobs, and finish those that they run"
	cmd.Long = `Makes workers quiet: they get no new jobs, and finish those that they run. When
osqueue worker ls shows 0 running jobs, a worker can be stopped without losing work.

A worker stays quiet until osqueue worker unquiet, also over a change of leader and if
it loses its connection. If it is declared dead, the cluster remembers its name for a
day: a worker that comes back under the same name is quiet still. The names that
osqueue worker and the SDK make by themselves are new in every process.`
	cmd.Example = `  osqueue worker quiet build-7
  osqueue worker show build-7 --watch`
	return cmd
}

func newUnquietCommand(g *view.Globals) *cobra.Command {
	cmd := newWorkerSwitch(g, "unquiet", (*client.Client).UnquietWorker)
	cmd.Short = "Let quiet workers get jobs again"
	cmd.Long = "Lets quiet workers get jobs again."
	return cmd
}

func newWorkerSwitch(g *view.Globals, verb string, do func(*client.Client, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME…",
		RunE: g.Each(func(ctx context.Context, c *client.Client, name string) error {
			if err := do(c, ctx, name); err != nil {
				return err
			}
			w, err := c.Worker(ctx, name)
			if client.IsNotFound(err) { // it was gone
				w, err = v1.Worker{Name: name}, nil
			}
			if err != nil {
				return err
			}
			return g.Print(view.Written(g, w), "%s  %s; %s running\n", view.PlainLine(w.Name), view.WorkerState(w), view.RunningText(w))
		}),
	}
}

// greetWait is the time after which greet reports that no node answers: the worker's own
// calls are retried for much longer before they fail.
const greetWait = 3 * time.Second

// checkPrograms refuses types whose payloads are programs if the nodes let producers without the right
// to run programs enqueue them.
func checkPrograms(ctx context.Context, c *client.Client, jobs []workerJob) error {
	runs := func(j workerJob) bool { return j.Python || j.Commands }
	if !slices.ContainsFunc(jobs, runs) {
		return nil
	}
	short, cancel := context.WithTimeout(ctx, greetWait)
	defer cancel()
	self, err := c.Self(short)
	if err != nil {
		return nil // greet reports it
	}
	for _, j := range jobs {
		guarded := slices.ContainsFunc(self.ProgramTypes, func(glob string) bool {
			ok, err := path.Match(glob, j.Type)
			return glob == j.Type || ok && err == nil && j.Type != "*"
		})
		if runs(j) && self.ID != "" && !guarded {
			return view.Usagef("%s: any producer could run programs here, because the nodes do not know that jobs of this type are programs: "+
				"start the nodes with --program-types %s, or use one of these types: %s",
				j, strings.Join(append(self.ProgramTypes[:len(self.ProgramTypes):len(self.ProgramTypes)], j.Type), ","), strings.Join(self.ProgramTypes, ", "))
		}
	}
	return nil
}

// greet warns at the start of problems that would show late: no node answers, or another
// worker has the same name.
func greet(ctx context.Context, c *client.Client, name string, log *slog.Logger) {
	short, cancel := context.WithTimeout(ctx, greetWait)
	defer cancel()
	other, err := c.Worker(short, name)
	switch {
	case ctx.Err() != nil || client.HasTag(err, v1.TagNotFound):
	case client.HasTag(err, v1.TagForbidden): // a token of the role worker does not show workers
	case err != nil:
		log.Warn("no node has answered yet; the worker keeps trying", "error", view.Explain(err, greetWait))
	default:
		log.Warn("a worker with this name sent a heartbeat a moment ago; if it is to go on, give each worker its own --name",
			"name", name, "heard", view.AgoText(other.LastSeen, time.Now())+" ago")
	}
}
