package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osqueue/cluster"
	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/bucketurl"
	"osqueue/storage/queuefile"
)

func newInspectCommand(g *globals) *cobra.Command {
	list := ""
	cmd := &cobra.Command{
		Use:   "inspect BUCKET-URL [JOB-ID]",
		Short: "Read queue.json from a bucket, without a cluster",
		Long: `Read queue.json from a bucket and say what is in it. Nothing is written and no
node is needed: this works while the whole cluster is down. What it shows is as
old as the last flush; the first lines say how old.

With a job id it prints that job, with --list a part of the document: queues (the
types with settings), crons, batches, workers, jobs, or blocked (the jobs that wait
for others); with --json each line is one of them.

` + exitHelp,
		Example: `  osqueue inspect file:///srv/osqueue
  osqueue inspect file:///srv/osqueue --list crons
  osqueue inspect s3://jobs/prod?region=eu-central-1 0190a8c2-… --json`,
		Args: usageArgs(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), g.timeout)
			defer cancel()
			if list != "" && (len(args) == 2 || inspectLists[list] == nil) {
				return usagef("--list %q: use %s, and no job id", list, strings.Join(inspectListNames, ", "))
			}
			doc, err := readDocument(ctx, args[0])
			switch {
			case err != nil:
				return err
			case len(args) == 2:
				return g.printStoredJob(doc, args[1])
			case list != "":
				return inspectLists[list](g, doc, time.Now())
			}
			return g.printDocument(doc, time.Now())
		},
	}
	cmd.Flags().StringVar(&list, "list", "", "list "+strings.Join(inspectListNames, ", "))
	complete(cmd, "list", inspectListNames...)
	hideGlobals(cmd, "servers")
	return cmd
}

func readDocument(ctx context.Context, bucket string) (*queuefile.Document, error) {
	data, err := readBucket(ctx, bucket)
	if errors.Is(err, storage.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no %s: is the URL right, prefix included?", bucket, cluster.DocumentKey)
	}
	if err != nil {
		return nil, err
	}
	doc, err := queuefile.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s in %s: %w", cluster.DocumentKey, bucket, err)
	}
	return doc, nil
}

// readBucket returns the bytes of the document. A directory is read without
// its driver, which would make its folders in it: a wrong path must stay as it
// is, and a copy on a read-only disk be readable.
func readBucket(ctx context.Context, bucket string) ([]byte, error) {
	if u, err := url.Parse(bucket); err == nil && u.Scheme == "file" && u.Host == "" && u.Path != "" {
		return os.ReadFile(filepath.Join(filepath.FromSlash(u.Path), cluster.DocumentKey))
	}
	b, err := bucketurl.Open(ctx, bucket)
	if err != nil {
		return nil, &usageError{err: err}
	}
	obj, err := b.Get(ctx, cluster.DocumentKey)
	if err = errors.Join(err, b.Close()); err != nil {
		return nil, fmt.Errorf("read %s from %s: %w", cluster.DocumentKey, bucket, err)
	}
	return obj.Data, nil
}

// storedDocument is what inspect tells of a document.
type storedDocument struct {
	Broker    string         `json:"broker"`
	Heartbeat int64          `json:"brokerHeartbeat"`
	AgeMs     int64          `json:"ageMs"`
	LSN       string         `json:"lsn,omitempty"`
	Epoch     uint64         `json:"epoch,omitempty"`
	Node      string         `json:"node,omitempty"`
	Lineage   string         `json:"lineage,omitempty"`
	Completed uint64         `json:"completedTotal"`
	Jobs      map[string]int `json:"jobs"`
	Types     map[string]int `json:"waitingByType"`
	Workers   int            `json:"workers"`
	Queues    int            `json:"queues"` // types with settings
	Paused    int            `json:"paused"` // of them
	Crons     int            `json:"crons"`
	Batches   int            `json:"batches"`
	Open      int            `json:"openBatches"` // of them
}

func describeDocument(d *queuefile.Document, now time.Time) storedDocument {
	s := storedDocument{
		Heartbeat: d.BrokerHeartbeat,
		AgeMs:     now.UnixMilli() - d.BrokerHeartbeat,
		Completed: d.Meta.CompletedTotal,
		Jobs:      make(map[string]int),
		Types:     make(map[string]int),
		Workers:   len(d.Workers),
		Queues:    len(d.Queues),
		Crons:     len(d.Crons),
		Batches:   len(d.Batches),
	}
	for _, q := range d.Queues {
		if q.Paused {
			s.Paused++
		}
	}
	for _, b := range d.Batches {
		if b.EndedAt == 0 {
			s.Open++
		}
	}
	if d.Broker != nil {
		s.Broker = *d.Broker
	}
	if h := d.Header; h != nil {
		s.LSN, s.Epoch, s.Node, s.Lineage = h.LSN().String(), h.Epoch, h.Node, h.Lineage
	}
	for _, j := range d.Jobs {
		s.Jobs[j.Status.String()]++
		switch j.Status {
		case fsm.Unclaimed, fsm.Scheduled, fsm.Blocked:
			s.Types[j.Type]++
		}
	}
	return s
}

func (g *globals) printDocument(d *queuefile.Document, now time.Time) error {
	s := describeDocument(d, now)
	if g.json {
		return g.writeJSON(s)
	}
	rows := [][]string{
		{"broker", s.Broker},
		{"written", fmt.Sprintf("%s (%s ago)", time.UnixMilli(s.Heartbeat).Format(time.RFC3339), time.Duration(s.AgeMs)*time.Millisecond)},
	}
	if d.Header != nil {
		rows = append(rows,
			[]string{"lsn", s.LSN},
			[]string{"epoch", fmt.Sprintf("%d (node %s)", s.Epoch, s.Node)},
			[]string{"lineage", s.Lineage})
	} else {
		rows = append(rows, []string{"format", "an older broker's: no LSN, no epoch"})
	}
	rows = append(rows, []string{"completed ever", fmt.Sprint(s.Completed)})
	for _, st := range allStatuses {
		rows = append(rows, []string{st, fmt.Sprint(s.Jobs[st])})
	}
	return g.table(append(rows,
		[]string{"workers", fmt.Sprint(s.Workers)},
		[]string{"queues", fmt.Sprintf("%d with settings, %d of them paused", s.Queues, s.Paused)},
		[]string{"crons", fmt.Sprint(s.Crons)},
		[]string{"batches", fmt.Sprintf("%d, %d of them open", s.Batches, s.Open)},
	))
}

// storedJob is a job as inspect prints it.
type storedJob struct {
	ID        string   `json:"jobId"`
	Type      string   `json:"type,omitempty"`
	Status    string   `json:"status"`
	Payload   string   `json:"payload,omitempty"`
	Result    string   `json:"result,omitempty"`
	LastError string   `json:"lastError,omitempty"`
	Worker    string   `json:"workerId,omitempty"`
	Attempts  int32    `json:"attempts"`
	CreatedAt int64    `json:"createdAt"`
	Group     string   `json:"group,omitempty"`
	Tags      []string `json:"tags,omitempty"`
	Waits     []string `json:"waitsFor,omitempty"`
	Batch     string   `json:"batchId,omitempty"`
	Cron      string   `json:"cron,omitempty"`
}

func storedJobOf(j *fsm.Job) storedJob {
	o := j.Options()
	s := storedJob{
		ID: j.ID, Type: j.Type, Status: j.Status.String(), Payload: string(j.Payload), Result: string(j.Result),
		LastError: j.LastError, Attempts: j.Attempts, CreatedAt: j.CreatedAt,
		Group: o.Group, Tags: o.Tags, Waits: j.Details().Waits, Batch: o.Batch, Cron: o.Cron,
	}
	if j.Worker != fsm.Anonymous {
		s.Worker = j.Worker
	}
	return s
}

func (g *globals) printStoredJob(d *queuefile.Document, id string) error {
	i := slices.IndexFunc(d.Jobs, func(j *fsm.Job) bool { return j.ID == id })
	if i < 0 {
		return fmt.Errorf("the document has no job %q; it may be younger than the last flush, or past its retention", id)
	}
	s := storedJobOf(d.Jobs[i])
	if g.json {
		return g.writeJSON(s)
	}
	return g.table(set(
		[]string{"job", s.ID},
		[]string{"type", s.Type},
		[]string{"status", s.Status},
		[]string{"worker", s.Worker},
		[]string{"attempts", fmt.Sprint(s.Attempts)},
		[]string{"created", time.UnixMilli(s.CreatedAt).Format(time.RFC3339)},
		[]string{"group", s.Group},
		[]string{"tags", strings.Join(s.Tags, " ")},
		[]string{"waits for", waitsText(s.Waits)},
		[]string{"batch", s.Batch},
		[]string{"cron", s.Cron},
		[]string{"payload", s.Payload},
		[]string{"result", s.Result},
		[]string{"last error", s.LastError},
	))
}
