package bucket

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/cmd/osqueue/view"
	"osqueue/fsm"
	"osqueue/storage/archive"
	"osqueue/storage/bucketurl"
)

// drill is one run of "osqueue drill".
type drill struct {
	restoration
	maxAge time.Duration
}

func newDrillCommand(g *view.Globals) *cobra.Command {
	d := drill{restoration: restoration{offline: offline{g: g}, document: cluster.DocumentKey, resume: true}}
	cmd := &cobra.Command{
		Use:   "drill BUCKET-URL [--max-age 26h]",
		Short: "Try to restore the newest backup",
		Long: `Restores the newest backup in a bucket into a temporary directory, with its artefacts, and checks
all of the result: each object, each log entry, and that the state is the one of the backup. It prints
the jobs, the LSN and the age, and removes the directory. The exit status is 1 if anything is wrong, or if
the backup is older than --max-age. The age counts from the last heartbeat of the leader in it.

The directory is made in $TMPDIR (/tmp), which needs the space of the backup. The memory is that of two
nodes. The command only reads the bucket; that of a queue works as well.`,
		Example: `  osqueue drill s3://elsewhere/jobs?region=us-west-2 --max-age 2h`,
		RunE: func(cmd *cobra.Command, args []string) error {
			d.from, d.now = args[0], time.Now()
			if err := bucketurl.Check(d.from); err != nil {
				return &view.UsageError{Err: err}
			}
			return d.run(cmd.Context(), d.try)
		},
	}
	d.offline.bind(cmd)
	view.PositiveVar(cmd.Flags(), &d.maxAge, "max-age", 26*time.Hour, "the age from which the backup is too old")
	return cmd
}

// drillReport is the report of drill.
type drillReport struct {
	Document  string         `json:"document"`
	LSN       string         `json:"lsn"`
	Heartbeat int64          `json:"heartbeat"` // of the leader when it wrote the document, ms
	AgeMs     int64          `json:"ageMs"`
	Jobs      map[string]int `json:"jobs"`
	Artefacts int            `json:"artefacts,omitzero"`
	Bytes     int64          `json:"bytes"` // of the restored checkpoint
	TookMs    int64          `json:"tookMs"`
	Defects   []string       `json:"defects"`
	OK        bool           `json:"ok"`
}

// try restores and checks the newest backup.
func (d *drill) try(ctx context.Context, b *buckets) (err error) {
	dir, err := os.MkdirTemp("", "osqueue-drill-")
	if err != nil {
		return fmt.Errorf("make a temporary directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d.to = (&url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}).String()
	src, err := d.source(ctx, b)
	if err != nil {
		return err
	}
	doc := src.Document()
	r := &drillReport{Document: src.Key(), LSN: doc.LSN().String(), Heartbeat: doc.BrokerHeartbeat, Defects: []string{}}
	r.AgeMs = d.now.UnixMilli() - r.Heartbeat
	want, err := d.restoreTo(ctx, b, src, r)
	if err != nil {
		return err
	}
	if err := d.checkAt(ctx, b, want, r); err != nil {
		return err
	}
	if age := view.FromMs(r.AgeMs); age > d.maxAge {
		r.Defects = append(r.Defects, fmt.Sprintf("it is %s old: more than --max-age %s", view.Short(age), view.SpanText(d.maxAge)))
	}
	r.TookMs, r.OK = time.Since(d.now).Milliseconds(), len(r.Defects) == 0
	if err := d.g.Details(r, r.rows(d.now)); err != nil || r.OK {
		return err
	}
	return view.SilentError{}
}

// restoreTo restores the state of a history, and returns its checksum.
func (d *drill) restoreTo(ctx context.Context, b *buckets, src *archive.History, r *drillReport) (sum [32]byte, err error) {
	m, err := stateAt(ctx, src, d.from, d.at)
	if err != nil {
		return sum, err
	}
	r.Jobs = jobsOf(m.Counts())
	if _, err := archive.Begin(m, d.origin(src, place{})); err != nil {
		return sum, err
	}
	written, err := d.write(ctx, b, place{}, m.View())
	if err != nil {
		return sum, err
	}
	r.Artefacts, r.Bytes = written.Artefacts, written.CheckpointBytes
	for _, key := range written.Missing {
		r.Defects = append(r.Defects, key+": the artefact of a job is missing or damaged")
	}
	return m.View().Hash(), nil
}

// checkAt checks what was restored.
func (d *drill) checkAt(ctx context.Context, b *buckets, want [32]byte, r *drillReport) error {
	bucket, err := b.read(ctx, d.to)
	if err != nil {
		return err
	}
	found, err := archive.Verify(ctx, bucket, cluster.DocumentKey)
	if err != nil {
		return err
	}
	for _, p := range found.Problems {
		r.Defects = append(r.Defects, p.String())
	}
	if !found.OK() {
		return nil
	}
	h, err := openHistory(ctx, bucket, d.to, view.Moment{})
	if err != nil {
		return err
	}
	m, err := h.At(ctx, archive.Target{})
	if err != nil {
		return err
	}
	if m.View().Hash() != want {
		r.Defects = append(r.Defects, "the restored state differs from that of the backup")
	}
	return nil
}

// jobsOf returns the numbers of jobs by status.
func jobsOf(counts fsm.Counts) map[string]int {
	jobs := make(map[string]int)
	for status, n := range counts {
		if n > 0 {
			jobs[fsm.Status(status).String()] = n
		}
	}
	return jobs
}

// jobsText formats numbers of jobs.
func jobsText(jobs map[string]int) string {
	var text []string
	for _, status := range view.AllStatuses {
		if n := jobs[status]; n > 0 {
			text = append(text, fmt.Sprintf("%d %s", n, v1.StatusWord(status)))
		}
	}
	if text == nil {
		return "none"
	}
	return strings.Join(text, ", ")
}

func (r *drillReport) rows(now time.Time) [][]string {
	rows := [][]string{
		{"backup", r.Document},
		{"lsn", r.LSN},
		{"written", pointText(r.Heartbeat, now)},
		{"jobs", jobsText(r.Jobs)},
	}
	if r.Artefacts > 0 {
		rows = append(rows, []string{"artefacts", fmt.Sprint(r.Artefacts)})
	}
	rows = append(rows, []string{"restored", fmt.Sprintf("and checked in %s (%s)", view.Short(view.FromMs(r.TookMs)), view.BytesText(r.Bytes))})
	for _, text := range r.Defects {
		rows = append(rows, []string{"defect", text})
	}
	return rows
}
