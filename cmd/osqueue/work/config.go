package work

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"osqueue/cmd/osqueue/view"
	"osqueue/internal/sandbox"
)

// readFile reads the file of --config, if given, and then gathers all jobs. docs/examples/worker.yaml explains the
// file: its fields are flags of the worker, limits are those with limit- in front, and jobs are added to those of
// the flags.
func (f *workerFlags) readFile() error {
	if f.configFile == "" {
		return f.gather()
	}
	text, err := os.ReadFile(f.configFile)
	if err == nil {
		err = f.parseFile(text)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.configFile, err)
	}
	return f.gather()
}

func (f *workerFlags) parseFile(text []byte) error {
	fields, err := view.ParseFields(text)
	if err != nil {
		return err
	}
	var jobs []view.Fields
	errs := []error{fields.Take("jobs", &jobs), setWithLimits(fields, f.settings)}
	for i, one := range jobs {
		var job workerJob
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
func setWithLimits(fields view.Fields, flags *pflag.FlagSet) error {
	var limits view.Fields
	if err := fields.Take("limits", &limits); err != nil {
		return err
	}
	for name, node := range limits {
		fields["limit-"+name] = node
	}
	return fields.Set(flags)
}

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
