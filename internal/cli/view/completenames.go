package view

import (
	"context"
	"iter"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// jobNames yields the ids of the newest jobs with these statuses.
func jobNames(statuses ...string) names {
	return func(ctx context.Context, c *client.Client) iter.Seq2[string, string] {
		return each(c.Jobs(ctx, client.ListOptions{Statuses: statuses, Newest: true, Limit: newestJobs}), func(j v1.Job) (string, string) {
			return j.ID, OrDash(j.Type) + " " + v1.StatusWord(j.Status)
		})
	}
}

// newestJobs is the number of jobs, the newest ones, in which ids, tags and groups are looked for.
const newestJobs = 5 * completeMost

func tagNames(ctx context.Context, c *client.Client) iter.Seq2[string, string] {
	return ofNewest(ctx, c, func(j v1.Job) []string { return j.Tags })
}

func groupNames(ctx context.Context, c *client.Client) iter.Seq2[string, string] {
	return ofNewest(ctx, c, func(j v1.Job) []string { return []string{j.Group} })
}

// ofNewest yields the different names that the newest jobs have, the newest first.
func ofNewest(ctx context.Context, c *client.Client, of func(v1.Job) []string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		seen := map[string]bool{"": true}
		for j, err := range c.Jobs(ctx, client.ListOptions{Statuses: []string{v1.StatusAll}, Newest: true, Limit: newestJobs}) {
			if err != nil {
				return
			}
			for _, name := range of(j) {
				if !seen[name] && !yield(name, "of "+OrDash(j.Type)) {
					return
				}
				seen[name] = true
			}
		}
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
