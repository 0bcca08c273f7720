package work

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"osqueue/client"
	"osqueue/client/worker"
	"osqueue/internal/cli/view"
	"osqueue/internal/logbridge"
)

func newWorkerCommand(g *view.Globals) *cobra.Command {
	f := &workerFlags{}
	cmd := &cobra.Command{
		Use:   "worker {--exec 'TYPE=COMMAND' | --http TYPE=URL | --python TYPE | --commands TYPE | --config FILE}…",
		Short: "Run jobs: commands, HTTP services, Python functions",
		Long: `Claims jobs and does each in the way given for its type. TYPE is the type of the
jobs; * takes those of all types that have no way of their own, also those
without type.

--exec runs a command: the payload is on its stdin, its stdout the result (JSON
as it is, other text as a JSON string), a non-zero exit status a failure that
quotes the end of its stderr; of a command that ends well that is the log of the
attempt, which "osqueue job show" prints. COMMAND is split into words, and its variables
expanded, as a shell would; for pipes and redirections write TYPE=sh -c '…'.
{{.name}} in a word is the payload's value of that name, always within one
argument. Its environment has OSQUEUE_JOB_ID, OSQUEUE_JOB_TYPE, OSQUEUE_ATTEMPT
and OSQUEUE_TOKEN, a number that grows with every claim, to fence what the
command writes elsewhere. On exit status 75 the job is tried again after 10 s;
--on-exit changes what follows on a status.

--http posts the payload to a service, whose answer is the result. --python
calls the function of a payload {"code","function","args","kwargs"}. --commands
runs the program of a payload {"argv","stdin","env"}, with the result
{"exit","stdout","stderr"}: whoever may enqueue such jobs, as "osqueue run"
does, runs programs here.

--sandbox keeps commands in: none (a process group), process (limits, a user and
a directory of its own, a clean environment, a filter of system calls, and no
files but the system's where the kernel has Landlock) or namespace (also
namespaces of its own; needs bubblewrap). Without it --exec runs in none,
--python and --commands in namespace where the machine can, else in process, in
both cases without network; --sandbox-net changes that. The worker logs in one
line what is in force. A level that this machine cannot give is an
error at the start. docs/worker.md says what each level prevents.

A command whose job is cancelled, runs out of its time, or is taken back, is
ended, with all that it has started: SIGTERM, and SIGKILL two seconds later.

The worker stops on Ctrl-C or SIGTERM: it finishes the running jobs within
--stop-timeout, ends the others and gives them back. A second Ctrl-C ends it at
once. osqueue worker ls shows which workers there are.

` + view.ExitHelp,
		Example: `  osqueue worker --exec 'wc=wc -w'
  osqueue worker --exec "thumb=convert -resize 64 -- {{.file}} png:-" --on-exit 3=dead --concurrency 4
  osqueue worker --http notify=http://localhost:9000/notify
  osqueue worker --commands command --sandbox namespace --limit-memory 512MiB`,
		Args: view.UsageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.readFile(cmd.Flags()); err != nil {
				return &view.UsageError{Err: err}
			}
			return runWorker(cmd.Context(), g, f)
		},
	}
	f.bind(cmd.Flags())
	cmd.AddCommand(g.Watch(newWorkerListCommand(g)), g.Watch(newWorkerShowCommand(g)))
	return cmd
}

func runWorker(ctx context.Context, g *view.Globals, f *workerFlags) (err error) {
	log := hclog.New(&hclog.LoggerOptions{Name: "worker", Level: logLevel(f.verbose), Output: g.Err})
	c, err := g.ClientWith(func(cfg *client.Config) { cfg.Logger = logbridge.New(log.Named("client")) })
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
	traces, err := openTraces(ctx, g.Version, log)
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
	awaitSignal := context.AfterFunc(ctx, func() {
		signal.Reset(os.Interrupt, syscall.SIGTERM) // a second one ends the process
		log.Info("stopping; the running jobs are finished first")
	})
	defer awaitSignal()
	log.Info("started", "name", w.Name(), "jobs", describeJobs(f.jobs), "servers", strings.Join(c.Servers(), ","))
	greet(ctx, c, w.Name(), log)
	return errors.Join(w.Run(ctx), lines.fault())
}

func logLevel(verbose bool) hclog.Level {
	if verbose {
		return hclog.Debug
	}
	return hclog.Info
}

// newJobWorker returns a worker with the handlers of the flags.
func newJobWorker(ctx context.Context, q worker.Queue, f *workerFlags, boxes *workerBoxes, log hclog.Logger, lines *jobLines, m *workerMetrics) (*worker.Worker, error) {
	if len(f.jobs) == 0 {
		return nil, view.Usagef("nothing to run: give --exec 'TYPE=COMMAND', for example --exec 'wc=wc -w', or --http, --python, --commands, --config")
	}
	w, err := worker.New(m.queue(q), f.config(lines.g.Version, m.finished(lines.finished), log))
	if err != nil {
		return nil, &view.UsageError{Err: err}
	}
	if m != nil {
		w.Use(m.Middleware)
	}
	taken := make(map[string]bool)
	for _, job := range f.jobs {
		if taken[job.Type] {
			return nil, view.Usagef("%s: type %s is given twice", job, job.Type)
		}
		taken[job.Type] = true
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
