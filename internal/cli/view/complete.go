package view

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

const (
	completeTimeout = time.Second // a shell waits for it
	completeMost    = 200         // names offered at a time
)

// names yields names of the cluster, and a description of each.
type names func(context.Context, *client.Client) iter.Seq2[string, string]

// argumentNames are the sources of a command's arguments, by the group of the command and
// the word of its usage.
var argumentNames = map[string]names{
	"job ID":      jobNames(v1.StatusAll),
	"dead ID":     jobNames(v1.StatusDead),
	"queue TYPE":  typeNames,
	"cron NAME":   cronNames,
	"hook NAME":   hookNames,
	"batch ID":    batchNames,
	"worker NAME": workerNames,
	"token ID":    tokenNames,
	"submit TYPE": typeNames,
	"drop TYPE":   typeNames,
}

// flagNames are the sources of flags.
var flagNames = map[string]names{
	"type":          typeNames,
	"types":         typeNames,
	"worker":        workerNames,
	"batch":         batchNames,
	"cron":          cronNames,
	"callback-type": typeNames,
}

// Complete lets the shell complete arguments and flags of all commands below root with the
// types, jobs, schedules, batches, workers and tokens that the cluster has. A cluster that
// does not answer within a second offers nothing.
func Complete(g *Globals, root *cobra.Command) {
	for _, cmd := range root.Commands() {
		Complete(g, cmd)
		for flag, source := range flagNames {
			if cmd.LocalFlags().Lookup(flag) != nil {
				// It fails if the flag has completions of its own already, which stay.
				_ = cmd.RegisterFlagCompletionFunc(flag, g.offer(source))
			}
		}
		words := strings.Fields(cmd.Use)
		if len(words) < 2 || cmd.ValidArgsFunction != nil {
			continue
		}
		group := words[0]
		if parent := cmd.Parent(); parent.HasParent() {
			group = parent.Name()
		}
		first := strings.Trim(words[1], "[]…")
		if source := argumentNames[group+" "+first]; source != nil {
			many := strings.Contains(words[1], "…")
			cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
				if len(args) > 0 && !many {
					return nil, cobra.ShellCompDirectiveDefault
				}
				return g.offer(source)(cmd, args, prefix)
			}
		}
	}
}

// offer asks a source for the names that begin with what the user typed.
func (g *Globals) offer(source names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
		c, err := g.ClientWith(func(cfg *client.Config) {
			cfg.AttemptTimeout, cfg.RetryFor = completeTimeout, completeTimeout
		})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		var out []string
		for name, about := range source(ctx, c) {
			if !strings.HasPrefix(name, prefix) || PlainLine(name) != name {
				continue
			}
			if out = append(out, cobra.CompletionWithDesc(name, PlainLine(about))); len(out) == completeMost {
				break
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

func jobNames(status string) names {
	return func(ctx context.Context, c *client.Client) iter.Seq2[string, string] {
		return each(c.Jobs(ctx, client.ListOptions{Statuses: []string{status}, Limit: 5 * completeMost}), func(j v1.Job) (string, string) {
			return j.ID, OrDash(j.Type) + " " + v1.StatusWord(j.Status)
		})
	}
}

func typeNames(ctx context.Context, c *client.Client) iter.Seq2[string, string] {
	return each(c.Queues(ctx), func(q v1.Queue) (string, string) {
		return q.Type, Plural(uint64(max(q.Unclaimed, 0)), "available job")
	})
}

func cronNames(ctx context.Context, c *client.Client) iter.Seq2[string, string] {
	return each(c.Crons(ctx), func(cron v1.Cron) (string, string) { return cron.Name, cron.Spec })
}

func batchNames(ctx context.Context, c *client.Client) iter.Seq2[string, string] {
	return each(c.Batches(ctx), func(b v1.BatchInfo) (string, string) { return b.ID, BatchState(b) })
}

func hookNames(ctx context.Context, c *client.Client) iter.Seq2[string, string] {
	return listed(c.Hooks(ctx))(func(h v1.Hook) (string, string) { return h.Name, h.URL })
}

func workerNames(ctx context.Context, c *client.Client) iter.Seq2[string, string] {
	return listed(c.Workers(ctx))(func(w v1.Worker) (string, string) { return w.Name, typesText(w.Types) })
}

func tokenNames(ctx context.Context, c *client.Client) iter.Seq2[string, string] {
	return listed(c.Tokens(ctx))(func(t v1.AccessToken) (string, string) { return t.ID, t.Name })
}

// each yields the names of a listing up to its first error.
func each[T any](list iter.Seq2[T, error], name func(T) (string, string)) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for item, err := range list {
			if err != nil || !yield(name(item)) {
				return
			}
		}
	}
}

// listed does the same as each for a list that came at once.
func listed[T any](items []T, err error) func(name func(T) (string, string)) iter.Seq2[string, string] {
	return func(name func(T) (string, string)) iter.Seq2[string, string] {
		return func(yield func(string, string) bool) {
			for i := 0; err == nil && i < len(items); i++ {
				if !yield(name(items[i])) {
					return
				}
			}
		}
	}
}
