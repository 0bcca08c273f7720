package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"osqueue/client"
	"osqueue/client/worker"
)

// workerFlags are the flags of "osqueue worker".
type workerFlags struct {
	exec        []string
	concurrency int
	name        string
	lease       time.Duration
	pollWait    time.Duration
	stopTimeout time.Duration
	quiet       bool
	verbose     bool
}

func newWorkerCommand(g *globals) *cobra.Command {
	f := &workerFlags{}
	cmd := &cobra.Command{
		Use:   "worker --exec 'TYPE=COMMAND'…",
		Short: "Run jobs by running commands",
		Long: `Claims jobs and runs a command for each: the payload is on the command's stdin,
its stdout is the result (JSON as it is, other text as a JSON string), a
non-zero exit status a failure that quotes the end of its stderr.

TYPE is the type of the jobs; * takes those of all types that have no command of
their own, also those without type. COMMAND is split into words, and its
variables expanded, as a shell would; for pipes and redirections write
TYPE=sh -c '…'. Its environment has OSQUEUE_JOB_ID, OSQUEUE_JOB_TYPE,
OSQUEUE_ATTEMPT and OSQUEUE_TOKEN, a number that grows with every claim, to
fence what the command writes elsewhere.

A command whose job is cancelled, runs out of its time, or is taken back, is
ended, with all that it has started: SIGTERM, and SIGKILL two seconds later.

The worker stops on Ctrl-C or SIGTERM: it finishes the running jobs within
--stop-timeout, ends the others and gives them back. A second Ctrl-C ends it at
once. osqueue worker ls shows which workers there are.

` + exitHelp,
		Example: `  osqueue worker --exec 'wc=wc -w'
  osqueue worker --exec "thumb=sh -c 'jq -r .url | xargs curl -s | convert - -resize 64 png:- | base64'" --concurrency 4`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return runWorker(cmd.Context(), g, f) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.exec, "exec", nil, "TYPE=COMMAND; may be given several times")
	flags.IntVar(&f.concurrency, "concurrency", 0, "how many jobs run at once (default: number of CPUs)")
	flags.StringVar(&f.name, "name", "", "name of the worker, its own (default: host, process and a random part)")
	flags.DurationVar(&f.lease, "lease", 0, "how long a claim lasts without heartbeat (default: the job's wish, then the server's)")
	flags.DurationVar(&f.pollWait, "poll-wait", worker.DefaultPollWait, "how long a claim waits at the server for a job")
	flags.DurationVar(&f.stopTimeout, "stop-timeout", worker.DefaultStopTimeout, "how long running jobs may go on after Ctrl-C")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "do not write a line for each job")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "log also what is repeated")
	cmd.AddCommand(newWorkerListCommand(g), newWorkerShowCommand(g))
	return cmd
}

func runWorker(ctx context.Context, g *globals, f *workerFlags) error {
	log := hclog.New(&hclog.LoggerOptions{Name: "worker", Level: logLevel(f.verbose), Output: g.stderr})
	c, err := g.clientWith(func(cfg *client.Config) { cfg.Logger = log.Named("client") })
	if err != nil {
		return err
	}
	defer c.Close()
	lines := newJobLines(g, f.quiet)
	w, err := newExecWorker(c, f, log, lines)
	if err != nil {
		return err
	}
	awaitSignal := context.AfterFunc(ctx, func() {
		signal.Reset(os.Interrupt, syscall.SIGTERM) // a second one ends the process
		log.Info("stopping; the running jobs are finished first")
	})
	defer awaitSignal()
	log.Info("started", "name", w.Name(), "exec", strings.Join(f.exec, "; "), "servers", strings.Join(c.Servers(), ","))
	return errors.Join(w.Run(ctx), lines.fault())
}

func logLevel(verbose bool) hclog.Level {
	if verbose {
		return hclog.Debug
	}
	return hclog.Info
}

// newExecWorker makes a worker whose handlers are the commands of --exec.
func newExecWorker(q worker.Queue, f *workerFlags, log hclog.Logger, lines *jobLines) (*worker.Worker, error) {
	if len(f.exec) == 0 {
		return nil, usagef("nothing to run: give --exec 'TYPE=COMMAND', for example --exec 'wc=wc -w'")
	}
	w, err := worker.New(q, worker.Config{
		Name:        f.name,
		Concurrency: f.concurrency,
		Lease:       f.lease,
		PollWait:    f.pollWait,
		StopTimeout: orNegative(f.stopTimeout),
		Version:     version,
		Finished:    lines.finished,
		Logger:      log,
	})
	if err != nil {
		return nil, &usageError{err: err}
	}
	return w, addCommands(w, f.exec, lines)
}

// orNegative makes 0, which Config takes for its default, mean none.
func orNegative(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

func addCommands(w *worker.Worker, specs []string, lines *jobLines) error {
	taken := make(map[string]bool)
	for _, spec := range specs {
		jobType, line, found := strings.Cut(spec, "=")
		switch {
		case !found || jobType == "":
			return usagef("--exec %q: write TYPE=COMMAND, with * for all types", spec)
		case taken[jobType]:
			return usagef("--exec %q: type %s has a command already", spec, jobType)
		}
		taken[jobType] = true
		handler, err := worker.Command(line)
		if err != nil {
			return usagef("--exec %q: %w", spec, err)
		}
		handler = lines.noteStart(handler)
		if jobType == "*" {
			w.HandleAny(handler)
		} else {
			w.Handle(jobType, handler)
		}
	}
	return nil
}
