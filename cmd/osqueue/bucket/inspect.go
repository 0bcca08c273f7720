package bucket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/cmd/osqueue/view"
	"osqueue/fsm"
	"osqueue/internal/limit"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
)

// inspection is one run of "osqueue inspect".
type inspection struct {
	offline
	bucket  string
	at      view.Moment
	history bool
	now     time.Time
}

func newInspectCommand(g *view.Globals) *cobra.Command {
	in := inspection{offline: offline{g: g}}
	cmd := &cobra.Command{
		Use:   "inspect BUCKET-URL",
		Short: "Describe the queue in a bucket, without a cluster",
		Long: `Describes the queue as the bucket has it: how old it is, who wrote it, how it is stored, and
the figures of osqueue stats. The command writes nothing and needs no node:
it works while the whole cluster is down.

The jobs and everything else are shown by the commands for them, with --bucket: osqueue job
ls, job show, dead ls, queue ls, cron ls, batch ls, worker ls, hook ls, token ls, stats, and ui
for the dashboard.

--history lists the states that osqueue restore can rebuild, as ranges without a gap, and
their size in the bucket. --at shows an earlier state instead of the newest.`,
		Example: `  osqueue inspect file:///srv/osqueue
  osqueue inspect s3://jobs/prod?region=eu-central-1 --history
  osqueue job ls --bucket file:///srv/osqueue --status dead --type mail --at 2h`,
		RunE: func(cmd *cobra.Command, args []string) error {
			in.bucket, in.now = args[0], time.Now()
			if in.history && in.at.Text != "" {
				return view.Usagef("--history covers all times: remove --at")
			}
			return in.run(cmd.Context(), in.show)
		},
	}
	in.bind(cmd)
	view.MomentVar(cmd.Flags(), &in.at, "an earlier state:")
	cmd.Flags().BoolVar(&in.history, "history", false, "list the states that can be restored")
	return cmd
}

// show reads what is asked for, and prints it.
func (in *inspection) show(ctx context.Context, b *buckets) error {
	bucket, err := b.read(ctx, in.bucket)
	if err != nil {
		return err
	}
	if in.history {
		return in.showHistory(ctx, bucket)
	}
	s, err := readState(ctx, bucket, in.bucket, in.at)
	if err != nil {
		return err
	}
	sum := s.summary(in.now)
	if err := s.serve(ctx, in.g, nil, func(ctx context.Context, api http.Handler) error {
		in.g.UseAPI(api)
		return in.g.WithClient(ctx, func(ctx context.Context, c *client.Client) (err error) {
			sum.Stats, err = c.StatsByType(ctx)
			return err
		})
	}); err != nil {
		return err
	}
	return showState(in.g, &sum, in.now)
}

var spanColumns = view.Columns("FROM", "TO", "SINCE", "UNTIL", "LENGTH")

// showHistory prints the states that can be restored.
func (in *inspection) showHistory(ctx context.Context, bucket storage.Bucket) error {
	h, err := openHistory(ctx, bucket, in.bucket, view.Moment{})
	if err != nil {
		return err
	}
	t := &view.LongTable{G: in.g, Columns: spanColumns}
	spans := h.Spans()
	if h.Key() != cluster.DocumentKey {
		if spans, err = backupSpans(ctx, bucket); err != nil {
			return err
		}
	}
	for _, s := range spans {
		span := spanOf(s)
		if err := t.Add(span, span.row); err != nil {
			return err
		}
	}
	if err := t.End(); err != nil {
		return err
	}
	u, err := archive.Usage(ctx, bucket, h.Document().Lineage())
	if err != nil {
		return err
	}
	return view.WritePlain(in.g.Err, usageText(u))
}

// usageText describes the size of a history in the bucket.
func usageText(u archive.Used) string {
	if u.Checkpoints+u.Log == 0 {
		return "The bucket contains only the document.\n"
	}
	return fmt.Sprintf("In the bucket: %s (%s), %s of the log (%s).\n",
		view.Plural(u.Checkpoints, "checkpoint"), view.BytesText(u.CheckpointBytes), view.Plural(u.Log, "object"), view.BytesText(u.LogBytes))
}

// stateSummary is the report of inspect about a state: the document, and the answer to osqueue stats.
type stateSummary struct {
	stateStamp
	Epoch   uint64         `json:"epoch,omitzero"`
	Node    string         `json:"node,omitzero"`
	Lineage string         `json:"lineage,omitzero"`
	Archive *storedArchive `json:"archive,omitzero"` // of the document
	Added   int            `json:"addedByHand,omitzero"`
	Stats   v1.Stats       `json:"stats"`
}

// storedArchive describes the objects that a document refers to.
type storedArchive struct {
	CheckpointLSN string `json:"checkpointLsn"`
	CheckpointAt  int64  `json:"checkpointAt"` // the queue's clock, ms
	Objects       int    `json:"objects"`      // of the log
	Entries       uint64 `json:"entries"`      // behind the checkpoint, those in the document included
	Bytes         int64  `json:"bytes"`        // in the bucket, without the document
}

func describeArchive(a *document.Archive) *storedArchive {
	if a == nil {
		return nil
	}
	out := &storedArchive{CheckpointLSN: a.Checkpoint.LSN.String(), CheckpointAt: a.Checkpoint.At, Objects: len(a.Log), Entries: a.Tail.Entries, Bytes: a.Checkpoint.Stored}
	for i := range a.Log {
		out.Entries += a.Log[i].Entries
		out.Bytes += a.Log[i].Stored
	}
	return out
}

func (s *storedState) summary(now time.Time) stateSummary {
	out := stateSummary{stateStamp: s.stamp(now), Archive: describeArchive(s.doc.Archive)}
	for _, j := range s.doc.View {
		if s.machine.Job(j.ID) == nil {
			out.Added++
		}
	}
	if h := s.doc.Header; h != nil {
		out.Epoch, out.Node, out.Lineage = h.Epoch, h.Node, h.Lineage
	}
	return out
}

// showState prints the summary of a state.
func showState(g *view.Globals, sum *stateSummary, now time.Time) error {
	if g.JSON {
		return g.WriteJSON(sum)
	}
	rows := [][]string{
		{"broker", view.OrDash(sum.Broker)},
		{"written", pointText(sum.Heartbeat, now)},
	}
	if sum.LSN != "" {
		lsn := sum.LSN
		if sum.Newest != "" {
			lsn += " (the newest is " + sum.Newest + ")"
		}
		if sum.LSN == view.NoLSN {
			lsn += ", the beginning: the queue did not exist before"
		}
		rows = append(rows,
			[]string{"lsn", lsn},
			[]string{"clock", pointText(sum.Clock, now)},
			[]string{"epoch", fmt.Sprintf("%d (node %s)", sum.Epoch, sum.Node)},
			[]string{"lineage", sum.Lineage})
	} else {
		rows = append(rows, []string{"format", "of the legacy broker: no LSN, no epoch"})
	}
	return errors.Join(g.Table(append(rows, archiveRows(sum)...)), g.Printf("\n"), view.ShowStats(g, sum.Stats))
}

// archiveRows describes where the state is stored.
func archiveRows(s *stateSummary) (rows [][]string) {
	a := s.Archive
	if a == nil {
		return nil
	}
	rows = append(rows, []string{"archive", fmt.Sprintf("checkpoint %s and %s after it, %s of the log; %s",
		a.CheckpointLSN, view.Plural(a.Entries, "entry"), view.Plural(a.Objects, "object"), view.BytesText(a.Bytes))})
	if s.Added > 0 {
		rows = append(rows, []string{"added by hand", fmt.Sprintf("%d jobs, which the next leader enqueues", s.Added)})
	}
	return rows
}

// storedState is a state that was read from a bucket, and the document by which
// it was found.
type storedState struct {
	key     string // of doc
	doc     *document.File
	machine *fsm.Machine
	view    *fsm.View
	past    bool // it is an earlier one than the document's
}

// readState reads the state at some point. url is for errors.
func readState(ctx context.Context, bucket storage.Bucket, url string, at view.Moment) (*storedState, error) {
	h, err := openHistory(ctx, bucket, url, at)
	if err != nil {
		return nil, err
	}
	m, err := stateAt(ctx, h, url, at)
	if err != nil {
		return nil, err
	}
	s := &storedState{key: h.Key(), doc: h.Document(), machine: m, view: m.View()}
	s.past = s.view.LSN() != s.doc.LSN()
	return s, nil
}

// openHistory opens the history of the document in a bucket, or of the backups in it, for a state.
func openHistory(ctx context.Context, bucket storage.Bucket, url string, at view.Moment) (*archive.History, error) {
	h, err := archive.Open(ctx, bucket, cluster.DocumentKey)
	if errors.Is(err, storage.ErrNotFound) {
		if of, failed := archive.OpenBackup(ctx, bucket, targetOf(at)); !errors.Is(failed, storage.ErrNotFound) {
			h, err = of, failed
		}
	}
	if err != nil {
		return nil, readError(url, cluster.DocumentKey, err)
	}
	return h, nil
}

// readError adds the next step for the user to an error of reading a document or its archive.
func readError(url, key string, err error) error {
	switch {
	case errors.Is(err, archive.ErrDamaged):
		return fmt.Errorf("read %s: %w\n%s", url, err, verifyHint(url))
	case errors.Is(err, storage.ErrNotFound):
		return fmt.Errorf("%s has no %s: check the URL and its prefix", url, key)
	}
	return fmt.Errorf("read %s: %w", url, err)
}

// stateAt rebuilds a state of a history. If the state is not kept, the error lists those that are.
func stateAt(ctx context.Context, h *archive.History, url string, at view.Moment) (*fsm.Machine, error) {
	m, err := h.At(ctx, targetOf(at))
	switch {
	case errors.Is(err, archive.ErrNotKept):
		return nil, fmt.Errorf("--at %s: %s has no such state\n%s", at.Text, url, spansText(h.Spans()))
	case err != nil:
		return nil, readError(url, cluster.DocumentKey, err)
	}
	return m, nil
}

func verifyHint(url string) string {
	return "osqueue verify " + view.ShellWord(url) + " lists all damage and the next step"
}

// stateStamp says of which point a state is, and how old it is.
type stateStamp struct {
	LSN   string `json:"lsn,omitzero"`
	Clock int64  `json:"clock"` // the queue's clock at that point, ms
	// Newest is the LSN of the document, if the state is an earlier one.
	Newest    string `json:"newestLsn,omitzero"`
	Broker    string `json:"broker"`
	Heartbeat int64  `json:"brokerHeartbeat"`
	AgeMs     int64  `json:"ageMs"` // of the heartbeat
}

func (s *storedState) stamp(now time.Time) stateStamp {
	m, d := s.view.Meta(), s.doc
	stamp := stateStamp{
		Clock: m.NowMs, Broker: limit.ClipMarked(d.BrokerAddress(), brokerShown), Heartbeat: d.BrokerHeartbeat, AgeMs: now.UnixMilli() - d.BrokerHeartbeat,
	}
	if d.Header != nil {
		stamp.LSN = m.LSN().String()
	}
	if s.past {
		stamp.Newest = d.LSN().String()
	}
	return stamp
}

// brokerShown is the number of bytes of a broker's address that are shown. A person who can write
// the document can make it any text.
const brokerShown = 256

// text is the stamp on one line.
func (s *stateStamp) text(now time.Time) string {
	line := "state of the legacy broker"
	if s.LSN != "" {
		line = "state " + s.LSN
	}
	line += " of " + pointText(s.Clock, now)
	if s.Newest != "" {
		line += "; the newest is " + s.Newest
	}
	age := view.Short(max(time.Duration(s.AgeMs)*time.Millisecond, 0))
	if s.Broker == "" {
		return fmt.Sprintf("%s; written %s ago, not by a broker\n", line, age)
	}
	return fmt.Sprintf("%s; broker %s wrote %s ago\n", line, s.Broker, age)
}

// pointText is a time, and how long ago it was.
func pointText(ms int64, now time.Time) string {
	if ms == 0 {
		return "-"
	}
	return view.LocalTime(ms) + " (" + view.AgoText(ms, now) + " ago)"
}

// storedSpan is a range of states without a gap.
type storedSpan struct {
	From  string `json:"from"` // LSNs, both included
	To    string `json:"to"`
	Since int64  `json:"since"` // the queue's clock at these, ms
	Until int64  `json:"until"`
}

func spanOf(s archive.Span) storedSpan {
	return storedSpan{s.From.String(), s.To.String(), s.Since.UnixMilli(), s.Until.UnixMilli()}
}

func (s storedSpan) row() []string {
	length := "-"
	if s.Since > 0 {
		length = view.Short(view.FromMs(s.Until - s.Since))
	}
	return []string{s.From, s.To, s.since(view.LocalTime), view.LocalTime(s.Until), length}
}

// text formats a span on one line, with its times in some format.
func (s storedSpan) text(at func(ms int64) string) string {
	text := fmt.Sprintf("%s (%s)", s.From, s.since(at))
	if s.From != s.To {
		text += fmt.Sprintf(" up to %s (%s)", s.To, at(s.Until))
	}
	return text
}

// since is the time of the first state. A queue has none before its first entry.
func (s storedSpan) since(at func(ms int64) string) string {
	if s.Since == 0 {
		return "the beginning"
	}
	return at(s.Since)
}

// spansMost is the number of ranges that an error names.
const spansMost = 6

// spansText lists the states that can be restored.
func spansText(spans []archive.Span) string {
	if len(spans) == 0 {
		return "it has no state that can be restored"
	}
	var b strings.Builder
	b.WriteString("states that can be restored:")
	first := max(0, len(spans)-spansMost)
	if first > 0 {
		fmt.Fprintf(&b, " %d ranges, the last of which are", len(spans))
	}
	for _, s := range spans[first:] {
		b.WriteString("\n  " + spanOf(s).text(func(ms int64) string {
			return time.UnixMilli(ms).Local().Format(time.RFC3339) // as --at takes it
		}))
	}
	return b.String()
}

// targetOf returns a moment of a flag as a place in a history.
func targetOf(at view.Moment) archive.Target {
	lsn, _ := fsm.ParseLSN(at.LSN) // the flag has checked it
	return archive.Target{LSN: lsn, Time: at.Time}
}
