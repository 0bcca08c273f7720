package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

func newFlowCommand(g *view.Globals) *cobra.Command {
	cmd := view.NewGroup("flow", "Create, show, wait for, cancel and retry flows of jobs",
		`A flow is a batch whose jobs have names, its steps, and run after each other. A job gets the
results of the jobs before it.`)
	cmd.AddCommand(newFlowCreateCommand(g), g.Read(newFlowShowCommand(g)), newFlowWaitCommand(g), newBatchCancelCommand(g), newFlowRetryCommand(g))
	return cmd
}

func newFlowCreateCommand(g *view.Globals) *cobra.Command {
	f := &submitFlags{}
	cmd := &cobra.Command{
		Use:   "create FILE",
		Short: "Create a flow with the lines of a file as steps",
		Long: `Creates a flow and prints its id. Each line of FILE is a job, as with osqueue submit --file,
with its name as "step" and the names of steps of earlier lines as "after". FILE may be - for
stdin. The flow is created with all jobs or not at all: up to 1000 jobs and 1 MiB. Two lines:
{"step":"fetch","type":"fetch","payload":1}
{"step":"pack","type":"pack","after":["fetch"]}`,
		Example: `  osqueue flow create order.jsonl --id order-7
  osqueue flow create - < order.jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.file = args[0]
			return runFlowCreate(cmd.Context(), g, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.id, "id", "", "id of the flow (default: a fresh UUID)")
	f.bind(flags)
	return cmd
}

func runFlowCreate(ctx context.Context, g *view.Globals, f *submitFlags) error {
	if err := f.jobFlags.check(); err != nil {
		return err
	}
	flow := &client.Flow{ID: f.id}
	if flow.ID == "" {
		flow.ID = client.NewID()
	}
	jobs, err := batchJobs(ctx, g, &batchFlags{submitFlags: *f})
	if err != nil {
		return err
	}
	for _, job := range jobs {
		after := job.After
		job.After = nil
		flow.Step(job.Step, job, after...)
	}
	return g.WithClient(ctx, func(ctx context.Context, c *client.Client) error {
		got, err := flow.Start(ctx, c)
		if err != nil {
			return err
		}
		return g.Print(view.Written(g, got), "%s\n", got.BatchID)
	})
}

// flowJobs returns the jobs of a flow: each comes after those before it.
func flowJobs(ctx context.Context, c *client.Client, id string) (batch v1.BatchInfo, jobs []v1.Job, err error) {
	if batch, err = c.Batch(ctx, id); err != nil {
		return batch, nil, err
	}
	for job, err := range c.Jobs(ctx, client.ListOptions{BatchID: id, Statuses: []string{v1.StatusAll}}) {
		if err != nil {
			return batch, nil, err
		}
		jobs = append(jobs, job)
	}
	return batch, jobs, nil
}

// flow is a batch with its jobs, for programs.
type flow struct {
	v1.BatchInfo
	Jobs []v1.Job `json:"jobs"`
}

func newFlowShowCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show a flow: its steps, and what each waits for",
		Long: `Shows the jobs of a flow or batch as a tree: a job stands below those that it runs after. With
--json the batch with its jobs.`,
		RunE: g.Call(func(ctx context.Context, c *client.Client, args []string) error {
			batch, jobs, err := flowJobs(ctx, c, args[0])
			if err != nil {
				return err
			}
			head := fmt.Sprintf("flow %s  %s, %d of %d jobs have ended\n", view.PlainLine(batch.ID), view.BatchState(batch), batch.Total-batch.Pending, batch.Total)
			return g.Print(flow{batch, jobs}, "%s%s", head, treeText(g, flowGraph(jobs)))
		}),
	}
}

// flowGraph returns the jobs of a flow as a graph, with their steps in place of their ids.
func flowGraph(jobs []v1.Job) (g v1.Graph) {
	names := make(map[string]string, len(jobs))
	for _, j := range jobs {
		if names[j.ID] = j.ID; j.Step != "" {
			names[j.ID] = j.Step
		}
		n := v1.GraphJob{ID: names[j.ID], Status: j.Status, Type: j.Type, Attempts: j.Attempts}
		if j.Progress != nil {
			n.Percent = j.Progress.Percent
		}
		g.Jobs = append(g.Jobs, n)
	}
	for _, j := range jobs {
		for _, id := range j.After {
			if from, there := names[id]; there {
				g.Edges = append(g.Edges, v1.GraphEdge{Kind: v1.EdgeAfter, From: from, To: names[j.ID], Waiting: slices.Contains(j.WaitsFor, id)})
			}
		}
	}
	return g
}

func newFlowWaitCommand(g *view.Globals) *cobra.Command {
	atMost := time.Hour
	cmd := &cobra.Command{
		Use:   "wait ID",
		Short: "Wait until a flow has ended",
		Long: `Waits until all jobs of a flow or batch have ended, and prints how. The exit status is 0 if all of
them completed, 1 if one did not, or if they did not end in time.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return g.Open(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				batch, err := c.WaitBatch(ctx, args[0], atMost)
				if err != nil {
					return err
				}
				text := fmt.Sprintf("%d completed, %d dead, %d cancelled", batch.Completed, batch.Dead, batch.Cancelled)
				if err := g.Print(batch, "%s  %s\n", batch.ID, text); err != nil || batch.Completed == batch.Total {
					return err
				}
				return errors.New("not all jobs of the flow have completed")
			})
		},
	}
	view.PositiveVar(cmd.Flags(), &atMost, "wait-for", atMost, "maximum time to wait")
	return cmd
}

func newFlowRetryCommand(g *view.Globals) *cobra.Command {
	var from string
	var fresh bool
	cmd := &cobra.Command{
		Use:   "retry ID",
		Short: "Retry a step of a flow, and all that run after it",
		Long: `Makes a job of a flow, and the jobs that run after it, as new, also those that have completed.
Each waits again for those before it. None of them may run: cancel those first.`,
		Example: `  osqueue flow retry order-7 --from charge`,
		RunE: g.Call(func(ctx context.Context, c *client.Client, args []string) error {
			if from == "" {
				return view.Usagef("--from is missing: give the step from which on the flow runs again")
			}
			n, err := c.RetryFlow(ctx, args[0], from, fresh)
			if err != nil {
				return err
			}
			return g.Print(view.Written(g, map[string]any{"batchId": args[0], "count": n}), "%s  %s as new\n", args[0], view.Plural(n, "job"))
		}),
	}
	cmd.Flags().StringVar(&from, "from", "", "step of the job, or its id")
	cmd.Flags().BoolVar(&fresh, "fresh", false, "the jobs lose what their attempts have stored, and the signals that they were sent")
	return cmd
}

func newJobSignalCommand(g *view.Globals) *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use:   "signal ID NAME [VALUE]",
		Short: "Send a job a signal",
		Long: `Sends a signal, with a JSON value, to a job that has not ended. A job that is suspended for it runs
again; for others the signal is kept.`,
		Example: `  osqueue job signal order-7.approve approved '{"by":"ann"}'`,
		Args:    cobra.RangeArgs(2, 3),
		RunE: g.Call(func(ctx context.Context, c *client.Client, args []string) error {
			var value []byte
			if len(args) > 2 {
				if value = []byte(args[2]); !v1.ValidJSON(value) {
					return view.Usagef("VALUE %w", notJSON(value))
				}
			}
			got, err := c.SendSignal(ctx, args[0], args[1], id, value)
			if err != nil {
				return err
			}
			out := map[string]any{"jobId": got.JobID, "status": got.Status, "duplicate": got.Duplicate}
			return g.Print(view.Written(g, out), "%s  %s\n", got.JobID, v1.StatusWord(got.Status))
		}),
	}
	cmd.Flags().StringVar(&id, "id", "", "id of the signal: the job gets one with the same id once")
	return cmd
}

func newJobLinkCommand(g *view.Globals) *cobra.Command {
	valid := 7 * 24 * time.Hour
	cmd := &cobra.Command{
		Use:   "link ID NAME",
		Short: "Make a link that sends a job a signal",
		Long: `Prints the path of a page on any node. Whoever opens it can send the job this one signal, once,
without a token: the page says what it does, and has a button. Treat the link as a secret.`,
		Example: `  osqueue job link order-7.approve approved --for 24h`,
		Args:    cobra.ExactArgs(2),
		RunE: g.Call(func(ctx context.Context, c *client.Client, args []string) error {
			link, err := c.MakeLink(ctx, args[0], args[1], valid)
			if err != nil {
				return err
			}
			return g.Print(view.Written(g, link), "%s\n", link.Path)
		}),
	}
	view.PositiveVar(cmd.Flags(), &valid, "for", valid, "how long the link is valid")
	return cmd
}
