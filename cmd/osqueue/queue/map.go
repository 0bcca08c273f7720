package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/runner"
)

// mapExitHelp ends the help of "osqueue map".
const mapExitHelp = `Exit status: 0 if all commands ended with 0; 123 if some did not, or did not run to
their end; 125 if osqueue failed; 130 after Ctrl-C; 2 after a usage error.`

// mapFlags are the flags of "osqueue map".
type mapFlags struct {
	commandFlags
	file      string
	name      string
	inFlight  int64
	keepOrder bool
	waitFor   time.Duration

	argv      []string
	variables map[string]string // of the environment of the commands
}

func newMapCommand(g *view.Globals) *cobra.Command {
	f := &mapFlags{}
	cmd := &cobra.Command{
		Use:   "map FILE -- COMMAND [ARGUMENT]…",
		Short: "Run a command on the workers for each line of a file",
		Long: `Runs a command for each line of FILE that is not blank, as a job; FILE may be - for
stdin. {} in an argument is replaced by the line; without {} the line is the last
argument. Arguments are passed unchanged: for pipes and variables write sh -c
'… "$1" …' sh {}. A line that begins with - is an option for most programs: write --
or ./ before {} if you do not trust the lines, as in rm -- {}.

The output of each command is printed whole when the command ends, or with --keep-order
in the order of the lines. With --json each command is a line with the fields line,
input, id, status, exit, stdout, stderr, and error if it did not run to its end. The
progress is on stderr.

` + commandHelp + `

At most --in-flight lines are jobs at the same time. Each job has the id NAME-LINE and
the tag NAME, for the NAME of --name. A second run with the same name does not repeat
jobs that the queue still has, but prints their results, also those of failed commands:
to run a line again, delete its job first. After Ctrl-C the jobs continue; the command
prints the name with which to resume the run.

` + view.BackoffHelp + "\n\n" + mapExitHelp,
		Example: `  osqueue map urls.txt -- curl -fsS -o /srv/pages/{} https://example.com/{}
  find /srv/video -name '*.avi' | osqueue map - -n 20 --name avi -- ffmpeg -i {} {}.mp4
  seq 100 | osqueue map - --keep-order -- expr {} '*' {}`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() != 1 || len(args) < 2 {
				return view.Usagef("write FILE -- COMMAND\nUsage: %s", cmd.UseLine())
			}
			f.file, f.argv = args[0], args[1:]
			return notRun(runMap(cmd.Context(), g, f))
		},
	}
	flags := cmd.Flags()
	f.bind(flags)
	flags.StringVar(&f.name, "name", "", "name of this run, to resume it later (default: a new one)")
	f.inFlight = 1000
	flags.VarP(view.From(&f.inFlight, 1), "in-flight", "n", "maximum number of lines that are jobs at the same time")
	flags.BoolVar(&f.keepOrder, "keep-order", false, "output in the order of the lines")
	view.SpanVar(flags, &f.waitFor, "wait-for", 0, "maximum time to wait for one job (default: no limit)")
	return cmd
}

func (f *mapFlags) check() error {
	switch {
	case f.unique.Key != "":
		return view.Usagef("--unique is for one job; osqueue run has it")
	case strings.IndexFunc(f.name, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0:
		return view.Usagef("--name %q: use visible ASCII characters only; the name is part of the ids of the jobs", f.name)
	case len(f.name) > maxTag:
		return view.Usagef("--name has %d bytes, more than the %d of a tag", len(f.name), maxTag)
	}
	return f.jobFlags.check()
}

// maxTag is how long a tag may be, in bytes.
const maxTag = 100

func runMap(ctx context.Context, g *view.Globals, f *mapFlags) error {
	err := f.check()
	if err == nil {
		f.variables, err = f.environment(g.Getenv)
	}
	if err != nil {
		return err
	}
	in, err := g.OpenInput(ctx, f.file)
	if err != nil {
		return err
	}
	defer in.Close()
	f.name = cmp.Or(f.name, client.NewID())
	return g.Open(ctx, func(ctx context.Context, c *client.Client) error {
		watch, err := c.Watch(ctx, f.kind)
		if err != nil {
			return err
		}
		defer watch.Close()
		p := &pipeline{
			g: g, c: c, watch: watch, progress: g.NewProgress(f.quiet), window: f.inFlight, keepOrder: f.keepOrder, waitFor: f.waitFor,
			enqueue: func(ctx context.Context, jobs []client.NewJob) (client.BatchEnqueued, error) {
				got, err := watch.Enqueue(ctx, jobs)
				if client.HasTag(err, v1.TagIDTaken) {
					err = fmt.Errorf("%w; the run %s had another command for this line: choose another --name", err, f.name)
				}
				return got, err
			},
			failed: func(job v1.Job) bool { return outcomeOfCommand(job).status != view.ExitOK },
			each:   func(l *line) error { return f.write(g, l) },
		}
		if !f.quiet {
			p.start = startCommands
		}
		p.progress.Count(f.file)
		began := time.Now()
		err = p.run(ctx, linesOf(in, f.parse))
		if err := f.summary(g, p, began); err != nil {
			return err
		}
		if err == nil && p.progress.Figures().Failed > 0 {
			return &view.ExitError{Code: view.ExitSomeFailed, Err: view.SilentError{}}
		}
		name := view.ShellWord(f.name)
		return p.outcome(ctx, err, "--name "+name,
			fmt.Sprintf("resume the run with the same command and --name %s, or end it with: osqueue job cancel --tag %s --yes", name, name))
	})
}

// parse makes the job of a line.
func (f *mapFlags) parse(l *line, text []byte) (err error) {
	l.text = string(text)
	if l.job, err = f.job(runner.CommandPayload{Argv: withLine(f.argv, l.text), Env: f.variables}); err != nil {
		return fmt.Errorf("line %d: %w", l.number, err)
	}
	l.job.ID = fmt.Sprintf("%s-%d", f.name, l.number)
	l.job.Tags = append(l.job.Tags[:len(l.job.Tags):len(l.job.Tags)], f.name)
	return nil
}

// placeholder stands for the line in arguments.
const placeholder = "{}"

// withLine inserts one line into a command line. The line always stays within one
// argument.
func withLine(argv []string, line string) []string {
	out := make([]string, len(argv), len(argv)+1)
	found := false
	for i, arg := range argv {
		found = found || strings.Contains(arg, placeholder)
		out[i] = strings.ReplaceAll(arg, placeholder, line)
	}
	if !found {
		out = append(out, line)
	}
	return out
}

// write prints the output of a line's command.
func (f *mapFlags) write(g *view.Globals, l *line) error {
	o := outcomeOfCommand(l.ended)
	if g.JSON {
		return g.WriteJSON(o.line(l))
	}
	if err := errors.Join(view.Write(g.Out, wholeLines(o.Stdout)), view.Write(g.Err, wholeLines(o.Stderr))); err != nil {
		return err
	}
	switch {
	case f.quiet || o.status == view.ExitOK:
		return nil
	case o.fault != nil:
		return view.WritePlain(g.Err, fmt.Sprintf("line %d: %s\n", l.number, view.FirstLine(o.fault.Error())))
	}
	return view.WritePlain(g.Err, fmt.Sprintf("line %d: exit status %d\n", l.number, *o.Exit))
}

// summary prints the figures on stderr.
func (f *mapFlags) summary(g *view.Globals, p *pipeline, began time.Time) error {
	if f.quiet {
		return nil
	}
	now := p.progress.Figures()
	text := fmt.Sprintf("%d of %d commands have ended in %s%s", now.Ended, now.Sent, view.Short(time.Since(began)), p.existed())
	if now.Failed > 0 {
		text += fmt.Sprintf("; %d failed", now.Failed)
	}
	return view.WritePlain(g.Err, text+"\n")
}
