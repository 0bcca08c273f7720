package queue

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

func newBatchCommand(g *view.Globals) *cobra.Command {
	cmd := view.NewGroup("batch", "Create, show and cancel batches of jobs",
		`A batch counts the jobs that belong to it, until all of them have ended; then it
enqueues its callback, if it has one.`)
	cmd.AddCommand(newBatchCreateCommand(g), newBatchCancelCommand(g),
		g.Read(view.ListCommand(g, "List the batches that are kept",
			`Lists the open batches, and those that have ended within the retention of completed
jobs. With --json each line is one batch.`,
			view.BatchColumns, (*client.Client).Batches, view.BatchRow)),
		g.Read(view.ShowCommand(g, "ID", "Show a batch",
			"Shows a batch. Its jobs are listed by osqueue job ls --batch ID --status all.",
			(*client.Client).Batch, batchRows)))
	return cmd
}

// batchFlags are the flags of "osqueue batch create".
type batchFlags struct {
	submitFlags
	callbackType    string
	callbackPayload string
	callbackOn      string
}

func newBatchCreateCommand(g *view.Globals) *cobra.Command {
	f := &batchFlags{}
	cmd := &cobra.Command{
		Use:   "create [FILE]",
		Short: "Create a batch with the lines of a file as jobs",
		Long: `Creates a batch and prints its id. Each line of FILE is a job, as with osqueue
submit --file: its payload if --type is given, else an object like
{"type":"wc","payload":[1,2]}. FILE may be - for stdin. The batch is created with all
jobs or not at all: up to 1000 jobs and 1 MiB. Add more with osqueue submit --batch ID
while the batch is open, that is until all of its jobs have ended. A batch without FILE
is open until jobs are added and have ended.

With --callback-type a job is enqueued when all jobs of the batch have ended; with
--callback-on completed only if all of them completed; with failed as soon as one is dead.

` + view.BackoffHelp,
		Example: `  osqueue batch create urls.txt --type fetch --text --callback-type pack --callback-payload '{"name":"today"}'
  osqueue batch create --id nightly --callback-type report --callback-on completed
  osqueue submit fetch '"http://127.0.0.1/"' --batch nightly`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				f.file = args[0]
			}
			return runBatchCreate(cmd.Context(), g, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.id, "id", "", "id of the batch (default: a fresh UUID)")
	flags.StringVar(&f.kind, "type", "", "type of the jobs; the lines are their payloads then")
	flags.BoolVar(&f.text, "text", false, "payloads are text, not JSON")
	flags.StringVar(&f.key, "idempotency-key", "", "idempotency key: commands with the same key create the batch once")
	flags.StringVar(&f.callbackType, "callback-type", "", "type of the callback job, which is enqueued when all jobs have ended")
	flags.StringVar(&f.callbackPayload, "callback-payload", "", "payload of the callback job, JSON")
	view.ChoiceVar(cmd, &f.callbackOn, "callback-on", "ended, completed or failed (default ended)", v1.CallbackEnded, v1.CallbackCompleted, v1.CallbackFailed)
	f.bind(flags)
	return cmd
}

// callback returns the job to enqueue at the end of the batch, or nil.
func (f *batchFlags) callback() (*client.NewJob, error) {
	if !f.flags.Changed("callback-type") && f.callbackPayload == "" && f.callbackOn == "" {
		return nil, nil
	}
	if !f.flags.Changed("callback-type") {
		return nil, view.Usagef("--callback-type is missing: give the type of the job, or '' for a job without type")
	}
	payload, err := payloadOf("callback-payload", f.callbackPayload, false)
	return &client.NewJob{Type: f.callbackType, Payload: payload}, err
}

func runBatchCreate(ctx context.Context, g *view.Globals, f *batchFlags) error {
	f.typed = f.flags.Changed("type")
	if f.text && !f.typed {
		return view.Usagef("--text needs a --type: the lines are payloads then")
	}
	if f.unique.Key != "" {
		return view.Usagef("--unique is for one job; give each line a uniqueKey of its own")
	}
	if err := f.jobFlags.check(); err != nil {
		return err
	}
	callback, err := f.callback()
	if err != nil {
		return err
	}
	jobs, err := batchJobs(ctx, g, f)
	if err != nil {
		return err
	}
	return g.WithClient(ctx, func(ctx context.Context, c *client.Client) error {
		got, err := c.CreateBatch(withKey(ctx, f.key), client.NewBatch{ID: f.id, Jobs: jobs, Callback: callback, CallbackOn: f.callbackOn})
		if err != nil {
			return err
		}
		return g.Print(view.Written(g, got), "%s\n", got.BatchID)
	})
}

// batchJobs reads the jobs of a file, which must fit into one request.
func batchJobs(ctx context.Context, g *view.Globals, f *batchFlags) ([]client.NewJob, error) {
	if f.file == "" {
		return nil, nil
	}
	in, err := g.OpenInput(ctx, f.file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var jobs []client.NewJob
	for b, err := range batches(ctx, linesOf(in, f.parse), g.MaxBatchBytes(), true) {
		if err != nil {
			return nil, err
		}
		if jobs != nil {
			return nil, fmt.Errorf(
				"%s is larger than one request (%d jobs, 1 MiB): create the batch with fewer lines, and add the others with osqueue submit --batch", f.file, client.MaxBatchJobs)
		}
		for _, l := range b {
			jobs = append(jobs, l.job)
		}
	}
	return jobs, nil
}

func batchRows(b v1.BatchInfo) [][]string {
	rows := [][]string{
		{"id", b.ID},
		{"state", view.BatchState(b)},
		{"created", view.ClockTime(b.CreatedAt)},
		{"ended", view.ClockTime(b.EndedAt)},
		{"jobs", strconv.FormatUint(b.Total, 10)},
		{"pending", strconv.FormatUint(b.Pending, 10)},
		{"completed", strconv.FormatUint(b.Completed, 10)},
		{"dead", strconv.FormatUint(b.Dead, 10)},
		{"cancelled", strconv.FormatUint(b.Cancelled, 10)},
	}
	if b.CallbackID != "" {
		rows = append(rows, []string{"callback", fmt.Sprintf("%s, when all are %s (%s)", b.CallbackID, cmp.Or(b.CallbackOn, v1.CallbackEnded), view.CallbackState(b))})
	}
	return rows
}

func newBatchCancelCommand(g *view.Globals) *cobra.Command {
	r := &changeRun{g: g, change: cancelJobs}
	cmd := &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel the jobs of a batch that have not ended",
		Long: `Cancels the jobs of a batch that have not ended. The command counts them and asks for
confirmation, unless --yes is given, which is required if stdin is not a terminal.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "" {
				return view.Usagef("the id of the batch is empty")
			}
			r.command, r.filter.Batch = cmd.CommandPath(), args[0]
			return r.run(cmd.Context(), nil)
		},
	}
	cmd.Flags().BoolVarP(&r.yes, "yes", "y", false, "do not ask for confirmation")
	return cmd
}
