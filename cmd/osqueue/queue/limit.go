package queue

import (
	"cmp"
	"context"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

// The limits of types and of their groups are settings of queues. People name them as they name keys.
const (
	limitOfType  = "type:"
	limitOfGroup = "group:"
)

func newLimitCommand(g *view.Globals) *cobra.Command {
	cmd := view.NewGroup("limit", "Limit how many jobs run and start, by key, type or group",
		`A limit says how many jobs run at once and how many start in a second. NAME is
  customer:7    a key: it limits the jobs submitted with --limit customer:7
  customer:*    keys with that beginning; each has a count and a rate of its own
  type:mail     the jobs of type mail
  group:mail    the jobs of each group of type mail
A job starts when all of its limits have room. A key's own rule counts before that of a
beginning, and a longer beginning before a shorter one.`)
	cmd.AddCommand(
		g.Read(view.ListCommand(g, "List the limits, and the keys in use",
			`Lists the rules, and the keys under which jobs run or wait. RULE OF names the beginning
whose rule counts for a key. With --json each line is one limit.`,
			view.LimitColumns, allLimits, view.LimitRow)),
		g.Read(view.ShowCommand(g, "NAME", "Show a limit, and what is used of it",
			"Shows the rule that counts for a limit, and the jobs that run and wait under it.", getLimit, view.LimitRows)),
		newLimitSetCommand(g), newLimitHoldCommand(g),
		newCronNamesCommand(g, "rm", "removed", "Remove the rules of limits", removeLimit),
	)
	return cmd
}

// setLimitOf replaces the limits of a type or of its groups; known is false if the name is that of a key.
func setLimitOf(ctx context.Context, c *client.Client, name string, rule v1.LimitRule) (known bool, err error) {
	var patch client.QueuePatch
	if jobType, limited := typeOf(name); limited && strings.HasSuffix(jobType, "*") {
		return true, view.Usagef("%s is a pattern, but the limit of a type belongs to one type: give its name", name)
	}
	if group, ok := strings.CutPrefix(name, limitOfGroup); ok {
		if rule.RatePerSecond != 0 || rule.Burst != 0 {
			return true, view.Usagef("%s: groups have no rate; give --running", name)
		}
		patch.MaxRunningPerGroup = settingOf(rule.MaxRunning)
		_, err = c.SetQueue(ctx, group, patch)
		return true, err
	}
	if jobType, ok := strings.CutPrefix(name, limitOfType); ok {
		patch.MaxRunning, patch.RatePerSecond, patch.Burst = settingOf(rule.MaxRunning), settingOf(rule.RatePerSecond), settingOf(rule.Burst)
		_, err = c.SetQueue(ctx, jobType, patch)
		return true, err
	}
	return false, nil
}

// typeOf returns the type in the name of the limit of a type or of its groups.
func typeOf(name string) (jobType string, limited bool) {
	for _, prefix := range []string{limitOfType, limitOfGroup} {
		if jobType, limited = strings.CutPrefix(name, prefix); limited {
			return jobType, true
		}
	}
	return "", false
}

func settingOf[T comparable](v T) client.Setting[T] {
	var none T
	if v == none {
		return client.Default[T]()
	}
	return client.SetTo(v)
}

func removeLimit(c *client.Client, ctx context.Context, name string) error {
	if known, err := setLimitOf(ctx, c, name, v1.LimitRule{}); known {
		return err
	}
	return c.RemoveLimit(ctx, name)
}

func getLimit(c *client.Client, ctx context.Context, name string) (v1.LimitState, error) {
	jobType, limited := typeOf(name)
	if !limited {
		return c.Limit(ctx, name)
	}
	q, err := c.Queue(ctx, jobType)
	for _, l := range limitsOfType(q) {
		if l.Name == name {
			return l, err
		}
	}
	return v1.LimitState{Name: name}, err
}

// limitsOfType returns the limits of a type and of its groups, if it has any.
func limitsOfType(q v1.Queue) (limits []v1.LimitState) {
	if s := q.Settings; s.MaxRunning != 0 || s.RatePerSecond != 0 {
		limits = append(limits, v1.LimitState{
			Name: limitOfType + q.Type, MaxRunning: s.MaxRunning, RatePerSecond: s.RatePerSecond, Burst: s.Burst,
			Running: int64(q.InProgress), Waiting: int64(q.Unclaimed),
		})
	}
	if n := q.Settings.MaxRunningPerGroup; n != 0 {
		limits = append(limits, v1.LimitState{Name: limitOfGroup + q.Type, MaxRunning: n})
	}
	return limits
}

func allLimits(c *client.Client, ctx context.Context) iter.Seq2[v1.LimitState, error] {
	return func(yield func(v1.LimitState, error) bool) {
		for q, err := range c.Queues(ctx, "") {
			if err != nil {
				yield(v1.LimitState{}, err)
				return
			}
			for _, l := range limitsOfType(q) {
				if !yield(l, nil) {
					return
				}
			}
		}
		c.Limits(ctx)(yield)
	}
}

func newLimitSetCommand(g *view.Globals) *cobra.Command {
	var rule v1.LimitRule
	cmd := &cobra.Command{
		Use:   "set NAME [--running N] [--rate RATE] [--burst N]",
		Short: "Make or replace the rule of a limit",
		Long: `Makes the rule of a limit, or replaces it as a whole: what is not given is not limited.
It counts at once, for jobs that start later. Quote a name with a *.`,
		Example: `  osqueue limit set 'customer:*' --running 2 --rate 10/s --burst 20
  osqueue limit set openai:gpt5 --running 20 --rate 500/m
  osqueue limit set type:mail --running 5
  osqueue limit set group:mail --running 1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if rule.Burst > 0 && rule.RatePerSecond == 0 {
				return view.Usagef("--burst has no effect without a rate: give --rate too")
			}
			return g.WithClient(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				known, err := setLimitOf(ctx, c, args[0], rule)
				if !known {
					err = c.SetLimit(ctx, args[0], rule)
				}
				if err != nil {
					return err
				}
				done := v1.LimitState{Name: args[0], MaxRunning: rule.MaxRunning, RatePerSecond: rule.RatePerSecond, Burst: rule.Burst}
				return g.Print(view.Written(g, done),
					"%s  %s\n", args[0], cmp.Or(view.RuleText(rule.MaxRunning, rule.RatePerSecond, rule.Burst), "not limited"))
			})
		},
	}
	flags := cmd.Flags()
	flags.Var(view.Value(&rule.MaxRunning, "number", positive, nil), "running", "maximum number of running jobs")
	flags.Var(view.Value(&rule.RatePerSecond, "rate", view.ParseRate, nil), "rate", "maximum rate of starts, as in 10/s, 600/m or 5000/h")
	flags.Var(view.Value(&rule.Burst, "number", positive, nil), "burst", "number of starts that may exceed the rate at once")
	return cmd
}

func newLimitHoldCommand(g *view.Globals) *cobra.Command {
	var d time.Duration
	cmd := &cobra.Command{
		Use:   "hold KEY --for DURATION",
		Short: "Let no job start under a key for a time",
		Long: `Lets no job start under a key for a time, at most a day; 0s ends the hold. Jobs that run
go on. Workers hold a key by themselves when the API behind it tells them to wait.`,
		Example: `  osqueue limit hold openai:gpt5 --for 10m
  osqueue limit hold openai:gpt5 --for 0s`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if jobType, limited := typeOf(args[0]); limited {
				return view.Usagef("%s: only a key can be held; pause a type with osqueue queue pause %s", args[0], jobType)
			}
			if !cmd.Flags().Changed("for") {
				return view.Usagef("give --for, the length of the hold (0s ends it)")
			}
			return g.WithClient(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				if err := c.HoldLimit(ctx, args[0], d); err != nil {
					return err
				}
				text := "held for " + view.SpanText(d)
				if d == 0 {
					text = "not held"
				}
				return g.Print(view.Written(g, map[string]string{"name": args[0]}), "%s  %s\n", args[0], text)
			})
		},
	}
	view.SpanVar(cmd.Flags(), &d, "for", 0, "length of the hold")
	return cmd
}
