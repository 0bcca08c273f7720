package queue

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"osqueue/client"
	"osqueue/cmd/osqueue/view"
)

// theDefault is the flag value that resets a setting.
const theDefault = "default"

// bindSetting adds a flag for one setting of a type.
func bindSetting[T any](flags *pflag.FlagSet, to *client.Setting[T], parse func(string) (T, error), kind, name, help string) {
	flags.Var(view.Value(to, kind, func(text string) (client.Setting[T], error) {
		if text == theDefault {
			return client.Default[T](), nil
		}
		v, err := parse(text)
		if err != nil {
			err = fmt.Errorf("%w (or %s)", err, theDefault)
		}
		return client.SetTo(v), err
	}, nil), name, help)
}

// positive reads a number of at least 1, and notNegative one of at least 0.
func positive(text string) (int64, error)    { return atLeast(1, text) }
func notNegative(text string) (int64, error) { return atLeast(0, text) }

func atLeast(least int64, text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least {
		return 0, fmt.Errorf("%q: write a number of at least %d", text, least)
	}
	return n, nil
}

func positiveSize(text string) (int64, error) {
	n, err := view.ParseSize(text)
	if err == nil && n < 1 {
		err = fmt.Errorf("%q: must be at least 1", text)
	}
	return n, err
}

func positiveSpan(text string) (time.Duration, error) {
	d, err := view.ParseSpan(text)
	if err == nil && d < time.Millisecond {
		err = fmt.Errorf("%q: must be at least 1ms", text)
	}
	return d, err
}

func bindPatch(flags *pflag.FlagSet, p *client.QueuePatch) {
	bindSetting(flags, &p.MaxRunning, positive, "number", "max-running", "maximum number of running jobs")
	bindSetting(flags, &p.MaxRunningPerGroup, positive, "number", "max-running-per-group", "maximum number of running jobs of one group")
	bindSetting(flags, &p.RatePerSecond, view.ParseRate, "rate", "rate", "maximum rate of claims, as in 10/s, 600/m or 5000/h")
	bindSetting(flags, &p.Burst, positive, "number", "burst", "number of claims that may exceed the rate at once")
	bindSetting(flags, &p.Lease, positiveSpan, "duration", "lease", "lease of a claim without heartbeats, unless the job or its worker sets one")
	bindSetting(flags, &p.Timeout, positiveSpan, "duration", "job-timeout", "maximum run time of one attempt, unless the job sets one")
	bindSetting(flags, &p.MaxAttempts, positive, "number", "max-attempts", "maximum number of attempts, unless the job sets one")
	bindSetting(flags, &p.Backoff, view.ParseBackoff, "backoff", "backoff", "wait after a failed attempt, unless the job sets one, as in exponential:1s:1h:20%")
	bindSetting(flags, &p.RetainFor, view.ParseSpan, "duration", "retain", "retention of completed and cancelled jobs")
	bindSetting(flags, &p.RetainCount, notNegative, "number", "retain-count", "maximum number of completed and cancelled jobs to keep")
	bindSetting(flags, &p.MaxJobs, positive, "number", "max-jobs", "maximum number of jobs that have not ended")
	bindSetting(flags, &p.MaxBytes, positiveSize, "size", "max-bytes", "maximum size of its jobs (payloads, results, logs, names, tags and headers), as in 64MiB")
	bindSetting(flags, &p.MaxPayload, positiveSize, "size", "max-payload", "maximum size of one payload, as in 64KiB")
}

func newQueueSetCommand(g *view.Globals) *cobra.Command {
	var patch client.QueuePatch
	cmd := &cobra.Command{
		Use:   "set TYPE --SETTING VALUE…",
		Short: "Change settings of a type",
		Long: `Changes the given settings of a type, and no others; the value default resets one. They
apply from the next claim on, and quotas from the next enqueue; running jobs keep theirs.

` + view.BackoffHelp,
		Example: `  osqueue queue set mail --max-running 5 --rate 10/s --burst 20
  osqueue queue set mail --job-timeout 2m --max-attempts 10 --backoff exponential:1s:1h:20%
  osqueue queue set mail --retain 7d --retain-count 100000 --rate default`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "*" {
				return view.Usagef("%q is a pattern: settings belong to one type; give its name", args[0])
			}
			if patch == (client.QueuePatch{}) {
				return view.Usagef("no setting given: give at least one, as in --max-running 5 (see --help)")
			}
			return g.WithClient(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				q, err := c.SetQueue(ctx, args[0], patch)
				if err != nil {
					return err
				}
				if q.Settings.Burst > 0 && q.Settings.RatePerSecond == 0 {
					if err := view.WritePlain(g.Err, "burst has no effect without a rate: give --rate too\n"); err != nil {
						return err
					}
				}
				return g.Details(view.Written(g, q), append([][]string{{"type", view.OrDash(q.Type)}}, view.SettingRows(q.Settings)...))
			})
		},
	}
	bindPatch(cmd.Flags(), &patch)
	return cmd
}
