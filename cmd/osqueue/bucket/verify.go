package bucket

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osqueue/cluster"
	"osqueue/cmd/osqueue/view"
	"osqueue/fsm/artefacts"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
)

// verification is one run of "osqueue verify".
type verification struct {
	offline
	url      string
	document string
	lineage  string
	repair   bool
	force    bool
	silence  time.Duration // after which a broker counts as dead
}

func newVerifyCommand(g *view.Globals) *cobra.Command {
	v := verification{offline: offline{g: g}}
	cmd := &cobra.Command{
		Use:   "verify BUCKET-URL",
		Short: "Check all objects of a queue in its bucket, and repair it",
		Long: `Reads all objects of the queue in its bucket: the document and the archive. The command
compares every checksum, looks for gaps, applies every log entry, and compares each
state with the state that the log before it leads to. It writes nothing, and the
cluster may run. Each defect is printed with its object and its consequence; if there
are any, the exit status is 1. Where osqueue backup has written, it checks the newest backup.

If a node still has its disk, start the nodes instead of repairing: they have the
newest state. Their leader replaces what is missing in the archive by itself. If
the document cannot be read, move it away first; the leader writes it again, on S3 and
GCS after osqueue bucket adopt.

--repair is for a queue whose nodes are lost. If the document is missing, or if it or
an object that it names is damaged, --repair writes a new document with the newest
complete state. It deletes nothing, keeps a copy of the old document under conflicts/,
and reports what was kept and what is lost. It never replaces a damaged queue by an
empty one. Damage before the newest state cannot be repaired; the retention deletes it.
While a leader is alive --repair fails: stop the nodes first. Nodes that have a newer
state than the repaired one keep it when they start.`,
		Example: `  osqueue verify s3://jobs/prod?region=eu-central-1
  osqueue verify file:///srv/osqueue --json
  osqueue verify file:///srv/osqueue --repair`,
		RunE: func(cmd *cobra.Command, args []string) error {
			v.url = args[0]
			if !v.repair && (v.force || v.lineage != "") {
				return view.Usagef("--force and --lineage need --repair")
			}
			return v.run(cmd.Context(), v.verify)
		},
	}
	v.bind(cmd)
	return cmd
}

func (v *verification) bind(cmd *cobra.Command) {
	v.offline.bind(cmd)
	flags := cmd.Flags()
	flags.StringVar(&v.document, "document", cluster.DocumentKey, "key of the document to check, such as that of a copy under conflicts/")
	flags.BoolVar(&v.repair, "repair", false, "replace the document by the newest complete state")
	flags.BoolVar(&v.force, "force", false, "repair even if the cluster may be alive, which fences it")
	flags.StringVar(&v.lineage, "lineage", "", "lineage to repair, if the lineage of the document cannot be read")
	view.PositiveVar(flags, &v.silence, "broker-timeout", defaultBrokerTimeout, "time without a heartbeat after which the cluster is dead, as for serve")
}

func (v *verification) verify(ctx context.Context, b *buckets) error {
	if v.repair {
		return v.verifyAndRepair(ctx, b)
	}
	bucket, err := b.read(ctx, v.url)
	if err != nil {
		return err
	}
	found, err := archive.Verify(ctx, bucket, v.document)
	if errors.Is(err, storage.ErrNotFound) && v.document == cluster.DocumentKey {
		var backup string
		if backup, err = newestBackup(ctx, bucket, err); err == nil {
			found, err = archive.Verify(ctx, bucket, backup)
		}
	}
	if err != nil {
		return v.missing(ctx, bucket, err)
	}
	report := reportOf(found)
	if err := report.print(v.g, v.url); err != nil {
		return err
	}
	if !found.OK() {
		return view.SilentError{}
	}
	return nil
}

// newestBackup returns the key of the newest backup in a bucket; the error is none if there is no backup.
func newestBackup(ctx context.Context, bucket storage.Bucket, none error) (string, error) {
	all, err := archive.Backups(ctx, bucket)
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		return "", none
	}
	return all[len(all)-1].Key(), nil
}

func (v *verification) verifyAndRepair(ctx context.Context, b *buckets) error {
	if err := v.exists(ctx, b); err != nil {
		return err
	}
	bucket, err := b.write(ctx, v.url)
	if err != nil {
		return err
	}
	done, failed := archive.Repair(ctx, bucket, v.document, archive.RepairOptions{
		Force: v.force, Now: time.Now(), Timeout: v.silence, Lineage: v.lineage,
	})
	if done == nil || done.Before == nil {
		return v.explain(failed)
	}
	report := reportOf(done.Before)
	report.repaired(done)
	if err := report.print(v.g, v.url); err != nil {
		return err
	}
	switch {
	case errors.Is(failed, archive.ErrAlive) && done.From.IsZero():
		return fmt.Errorf("%s: nothing was written, because the document does not show whether a leader is alive\n%s"+
			"If all disks are lost, make sure that all nodes are stopped, and give --force", v.url, v.wholeDisks(done.Missing))
	case failed != nil:
		return v.explain(failed)
	case !done.Written && !done.Before.OK():
		return view.SilentError{}
	}
	return nil
}

// wholeDisks describes the next step if a node still has its disk; missing says that
// there is no document.
func (v *verification) wholeDisks(missing bool) string {
	if missing {
		return "If a node still has its disk, do not repair: start the nodes, and the leader writes the document again\n"
	}
	return fmt.Sprintf("If a node still has its disk, do not repair: move %s away and start the nodes, and the leader writes it again\n", v.document)
}

// exists returns an error for a wrong path, before the driver makes a bucket of it.
func (v *verification) exists(ctx context.Context, b *buckets) error {
	bucket, err := b.read(ctx, v.url)
	if err != nil {
		return err
	}
	_, err = bucket.Get(ctx, v.document)
	if !errors.Is(err, storage.ErrNotFound) {
		return v.explain(err)
	}
	if backup, _ := newestBackup(ctx, bucket, err); backup != "" {
		return fmt.Errorf("%s has backups and is not the bucket of a queue: a backup cannot be repaired, but osqueue backup copies "+
			"again what is damaged\nTo make a queue of it:\n  osqueue restore --from %s --to BUCKET-URL", v.url, view.ShellWord(v.url))
	}
	found, failed := archive.HasArchive(ctx, bucket)
	if failed == nil && found {
		return nil
	}
	return v.explain(errors.Join(err, failed))
}

// missing explains an error of Verify. If there is no document, the error names the
// archive to repair it from, if there is one.
func (v *verification) missing(ctx context.Context, bucket storage.Bucket, err error) error {
	if !errors.Is(err, storage.ErrNotFound) || errors.Is(err, archive.ErrDamaged) {
		return v.explain(err)
	}
	found, failed := archive.HasArchive(ctx, bucket)
	switch {
	case failed != nil:
		return v.explain(failed)
	case !found:
		return v.explain(err)
	}
	return fmt.Errorf("%s has no %s, but its archive exists\n%sIf all disks are lost:\n  osqueue verify %s --repair",
		v.url, v.document, v.wholeDisks(true), view.ShellWord(v.url))
}

// explain adds the next step for the user to an error.
func (v *verification) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, storage.ErrNotFound) && !errors.Is(err, archive.ErrDamaged):
		return readError(v.url, v.document, err)
	case errors.Is(err, archive.ErrAlive):
		return fmt.Errorf("%s: %w\nStop all nodes, wait for %s, and try again; --force does it at once", v.url, err, v.silence)
	case errors.Is(err, archive.ErrNothingGood):
		return fmt.Errorf("%s: %w, and nothing was written\n%sOtherwise look for a copy under conflicts/",
			v.url, err, v.wholeDisks(false))
	}
	return fmt.Errorf("%s: %w", v.url, err)
}

// verifyReport is the report of verify.
type verifyReport struct {
	Document string `json:"document"`
	LSN      string `json:"lsn"`
	// Unreadable is true if the document cannot be read: neither its LSN nor its
	// references are known.
	Unreadable bool `json:"unreadable,omitzero"`

	Checkpoints    int      `json:"checkpoints"` // checked objects, as the following fields
	Segments       int      `json:"segments"`
	SegmentIndexes int      `json:"segmentIndexes"`
	Entries        uint64   `json:"entries"`
	Bytes          int64    `json:"bytes"` // of the segments
	Artefacts      int      `json:"artefacts,omitzero"`
	Strays         int      `json:"strays"`           // unreferenced objects
	Unknown        []string `json:"unknown,omitzero"` // objects of artefacts that the newest state does not have
	Gone           int      `json:"gone"`             // objects that were collected during the check
	OK             bool     `json:"ok"`

	Spans    []storedSpan   `json:"spans"` // the states that can be restored
	Defects  []defect       `json:"defects"`
	Repaired *repairOutcome `json:"repaired,omitzero"`
}

// defect is one defect of the stored state.
type defect struct {
	Key         string `json:"key"`
	Object      string `json:"object,omitzero"` // the kind of object
	Problem     string `json:"problem"`
	Consequence string `json:"consequence"`
}

// repairOutcome is the result of a repair.
type repairOutcome struct {
	Written bool           `json:"written"`
	Was     string         `json:"was,omitzero"` // LSNs
	Is      string         `json:"is,omitzero"`
	Jobs    map[string]int `json:"jobs,omitzero"`
	Copy    string         `json:"copy,omitzero"`
}

// reportOf returns the report of a check.
func reportOf(r *archive.Report) *verifyReport {
	out := &verifyReport{
		Document: r.Key, LSN: r.LSN.String(), Checkpoints: r.Checkpoints,
		Segments: r.Segments, SegmentIndexes: r.SegmentIndexes,
		Artefacts: r.Artefacts, Unknown: r.Unknown,
		Entries: r.Entries, Bytes: r.Bytes, Strays: r.Strays, Gone: len(r.Gone), OK: r.OK(),
		Spans: []storedSpan{}, Defects: []defect{},
	}
	for _, s := range r.Spans {
		out.Spans = append(out.Spans, spanOf(s))
	}
	for _, p := range r.Problems {
		out.Unreadable = out.Unreadable || p.Key == r.Key && r.LSN.IsZero() && errors.Is(p.Err, document.ErrFormat)
		out.Defects = append(out.Defects, defect{
			Key: p.Key, Object: archive.Describe(p.Key), Problem: p.Err.Error(), Consequence: consequence(r, &p),
		})
	}
	return out
}

// consequence describes the effect of a problem.
func consequence(r *archive.Report, p *archive.Problem) string {
	switch {
	case strings.HasPrefix(p.Key, artefacts.Prefix):
		return "The job that has it cannot be run as it was submitted, or its result is lost."
	case !p.Named:
		return "Earlier states that need it cannot be restored. The newest one does not need it."
	case p.Key == r.Key:
		return "A cluster that has lost its nodes cannot recover from this document."
	}
	return "The newest state needs it: a cluster that has lost its nodes cannot recover."
}

func (p *verifyReport) repaired(r *archive.Repaired) {
	p.Unreadable = p.Unreadable || r.From.IsZero() && !r.Before.OK()
	out := &repairOutcome{Written: r.Written}
	if r.Written {
		out.Is, out.Copy, out.Jobs = r.To.String(), r.Copy, jobsOf(r.Counts)
		if !r.From.IsZero() {
			out.Was = r.From.String()
		}
	}
	p.Repaired = out
}

// print prints the report of the bucket at url.
func (p *verifyReport) print(g *view.Globals, url string) error {
	if g.JSON {
		return g.WriteJSON(p)
	}
	rows := [][]string{
		{"document", p.documentText()},
		{"checked", fmt.Sprintf("%s, %s (%s), %s; %s in all", view.Plural(p.Checkpoints, "checkpoint"), view.Plural(p.Segments, "segment"),
			view.BytesText(p.Bytes), view.Plural(p.SegmentIndexes, "segment index file"), view.Plural(p.Entries, "entry"))},
	}
	if p.Strays+p.Gone > 0 {
		rows = append(rows, []string{"other", fmt.Sprintf("%s without a reference, %d deleted during the check", view.Plural(p.Strays, "object"), p.Gone)})
	}
	if p.Artefacts > 0 {
		rows = append(rows, []string{"artefacts", view.Plural(p.Artefacts, "artefact") + " of jobs; only their sizes are compared"})
	}
	for _, key := range p.Unknown[:min(len(p.Unknown), defectsMost)] {
		rows = append(rows, []string{"unknown", key + ": the newest state has no such artefact"})
	}
	for _, s := range p.Spans {
		rows = append(rows, []string{"restorable", s.text(view.LocalTime)})
	}
	if err := g.Table(rows); err != nil {
		return err
	}
	return g.Printf("\n%s%s", p.defectsText(), p.outcomeText(url))
}

// documentText describes the document.
func (p *verifyReport) documentText() string {
	if p.Unreadable {
		return p.Document + ", which cannot be read"
	}
	lsn := "LSN " + p.LSN
	if p.LSN == view.NoLSN {
		lsn = "of the legacy broker"
	}
	return p.Document + ", " + lsn
}

// defectsMost bounds the number of defects that are shown.
const defectsMost = 50

func (p *verifyReport) defectsText() string {
	if p.OK {
		return "No defects.\n"
	}
	var b strings.Builder
	for _, d := range p.Defects[:min(len(p.Defects), defectsMost)] {
		b.WriteString(d.Key)
		if d.Object != "" {
			b.WriteString("\n  " + d.Object)
		}
		fmt.Fprintf(&b, "\n  %s\n  %s\n", d.Problem, d.Consequence)
	}
	if n := len(p.Defects) - defectsMost; n > 0 {
		fmt.Fprintf(&b, "and %d more; --json has all of them\n", n)
	}
	fmt.Fprintf(&b, "\n%s.\n", view.Plural(len(p.Defects), "defect"))
	return b.String()
}

// outcomeText describes the repair, or the next step.
func (p *verifyReport) outcomeText(url string) string {
	switch r := p.Repaired; {
	case p.OK:
		return ""
	case r == nil:
		return p.adviceText(url)
	case r.Written:
		return r.text(p)
	}
	return "Nothing was repaired.\n"
}

// adviceText describes the next step for defects.
func (p *verifyReport) adviceText(url string) string {
	if !slices.ContainsFunc(p.Defects, func(d defect) bool { return !strings.HasPrefix(d.Key, artefacts.Prefix) }) {
		return "A repair cannot make artefacts: put their objects back from a copy of the bucket.\n"
	}
	url = view.ShellWord(url)
	if archive.IsBackup(p.Document) {
		return fmt.Sprintf("The next osqueue backup copies again what is damaged. To restore an earlier one:\n"+
			"  osqueue inspect %s --history\n  osqueue restore --from %s --at LSN --to BUCKET-URL\n", url, url)
	}
	var b strings.Builder
	if p.Unreadable {
		b.WriteString("No other object was checked, because the document cannot be read; a repair checks them.\n")
	}
	b.WriteString("If a node still has its disk, do not repair: start the nodes, which have the newest state. Their leader replaces\n" +
		"what is missing; if the document cannot be read, move it away first, and the leader writes it again.\n" +
		"If all disks are lost, replace the document by the newest complete state in the bucket:\n")
	fmt.Fprintf(&b, "  osqueue verify %s --repair\n", url)
	if n := len(p.Spans); n > 0 {
		fmt.Fprintf(&b, "To restore a state as a new queue, and not change this one:\n  osqueue restore --from %s --at %s --to BUCKET-URL\n",
			url, p.Spans[n-1].To)
	}
	return b.String()
}

func (r *repairOutcome) text(p *verifyReport) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Repaired: the state of %s is %s now. Jobs: %s.\n", p.Document, r.Is, jobsText(r.Jobs))
	switch {
	case r.Was == "":
		b.WriteString("The old document did not show its LSN: later changes are lost, unless a node has them.\n")
	case r.Was != r.Is:
		fmt.Fprintf(&b, "It was %s: changes after %s are lost, unless a node has them.\n", r.Was, r.Is)
	default:
		b.WriteString("The newest state is complete.\n")
	}
	if r.Copy != "" {
		fmt.Fprintf(&b, "The old document is kept as %s.\n", r.Copy)
	}
	b.WriteString("Nodes that have a newer state on their disks keep it when they start.\n")
	return b.String()
}
