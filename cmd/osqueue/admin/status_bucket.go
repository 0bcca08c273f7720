package admin

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
	"osqueue/storage/cost"
)

// bucketRows tell how the bucket is, by the word of the node that writes to it.
func bucketRows(nodes []client.NodeStatus, now time.Time) [][]string {
	i := leaderIndex(nodes)
	if i < 0 {
		return nil
	}
	s := nodes[i].Status
	return view.NonEmptyRows(
		[]string{"document", documentText(s.Document)},
		[]string{"archive", archiveText(s.Document)},
		[]string{"behind", behindText(s)},
		[]string{"flushes", flushesText(s)},
		[]string{"requests", requestsText(s.Bucket, now)},
		[]string{"cost", costText(s.Bucket, now)},
		[]string{"snapshots", snapshotsText(s.Snapshots, now)},
		[]string{"inbox", inboxText(s.Inbox)},
	)
}

// snapshotsText is about raft's snapshots, as the leader knows them.
func snapshotsText(s *v1.Snapshots, now time.Time) string {
	if s == nil || s.Local == nil {
		return ""
	}
	return fmt.Sprintf("raft entry %d-%d on the leader's disk, %s old", s.Local.Term, s.Local.Index, view.AgoText(s.Local.At, now))
}

func inboxText(b *v1.Inbox) string {
	if b == nil {
		return ""
	}
	rejected := fmt.Sprintf("%d rejected", b.Rejected)
	if b.Rejected > 0 {
		rejected += " (see inbox-rejected/ in the bucket)"
	}
	return fmt.Sprintf("%s taken, %d repeated, %s, %d waiting", view.Plural(b.Taken, "job"), b.Repeated, rejected, b.Waiting)
}

// bucketNotes returns failures of the bucket and defects of the state.
func bucketNotes(s v1.Status) (notes []string) {
	if r := s.Refusing; r != "" {
		notes = append(notes, "writes are refused: "+strings.Replace(r, "; writes are refused until it catches up", "", 1))
	}
	if e := s.FlushError; e != "" && !strings.Contains(s.Refusing, e) {
		notes = append(notes, fmt.Sprintf("%s, the leader, cannot write to the bucket: %s (it hands leadership over when another node can; "+
			"repair the bucket or its way to it, or stop %s if the others are well)", s.NodeID, e, s.NodeID))
	}
	if e := s.ArchiveError; e != "" {
		notes = append(notes, e)
	}
	if s.Standby != "" {
		notes = append(notes, "a standby cluster waits for the bucket: "+s.Standby)
	}
	if c := s.Carried; c != nil {
		text := fmt.Sprintf("the adopted document lacked writes that this cluster had acknowledged: %s carried over, %d ended with the same outcome",
			view.Plural(c.Jobs, "job"), c.Ended)
		if c.Kept > 0 || c.Records > 0 {
			text += fmt.Sprintf(", %s and %s only in the copy %s",
				view.Plural(c.Kept, "job"), view.Plural(c.Records, "other record"), c.Copy)
		}
		notes = append(notes, text)
	}
	if c := s.DocumentCopies; c != nil {
		notes = append(notes, fmt.Sprintf("another program changed queue.json, or a legacy one was adopted: copies %d, the newest %s", c.Count, c.Last))
	}
	if e := s.StateError; e != "" {
		notes = append(notes, e)
	}
	if snaps := s.Snapshots; snaps != nil && snaps.Damaged != "" {
		notes = append(notes, "a local snapshot is damaged: "+snaps.Damaged)
	}
	if s.Inbox != nil && s.Inbox.Failing != "" {
		notes = append(notes, "the inbox cannot be emptied: "+s.Inbox.Failing)
	}
	return notes
}

func documentText(d *v1.Document) string {
	if d == nil {
		return ""
	}
	text := view.BytesText(int64(d.Bytes))
	if !d.View {
		text += ", without a list of the jobs"
	}
	return text
}

func archiveText(d *v1.Document) string {
	if d == nil || d.ArchiveLSN == view.NoLSN {
		return ""
	}
	checkpoint := d.CheckpointLSN
	if checkpoint == view.NoLSN {
		checkpoint = "the beginning"
	}
	return fmt.Sprintf("checkpoint at %s, %s of the log up to %s", checkpoint, view.BytesText(d.LogBytes), d.ArchiveLSN)
}

// behindText describes the acknowledged writes that are not in the bucket yet.
func behindText(s v1.Status) string {
	text := "nothing"
	if s.LagEntries > 0 {
		text = fmt.Sprintf("%s, %s, for %s", view.Plural(s.LagEntries, "entry"), view.BytesText(s.LagBytes), msShort(s.LagMs))
	}
	if s.MaxFlushLagMs > 0 {
		text += fmt.Sprintf(" (writes are refused from %s on)", view.MsText(s.MaxFlushLagMs))
	}
	return text
}

func flushesText(s v1.Status) string {
	if s.FlushIntervalMs == 0 {
		return ""
	}
	text := "at most one every " + msShort(s.FlushIntervalMs)
	if s.Ack != "" {
		text += "; ack level " + s.Ack
	}
	return text
}

func requestsText(b *v1.Bucket, now time.Time) string {
	if b == nil {
		return ""
	}
	var total uint64
	for _, n := range b.Requests {
		total += n
	}
	return fmt.Sprintf("%d in %s (%s written, %s read)",
		total, view.Short(now.Sub(time.UnixMilli(b.Since))), view.BytesText(int64(b.BytesWritten)), view.BytesText(int64(b.BytesRead)))
}

// projectable is how long a process must have run for its projection to be one: until
// then it divides by that time, and shows too little.
const projectable = cost.LeastSpan

func costText(b *v1.Bucket, now time.Time) string {
	if b == nil || b.CostUSD == 0 && b.ProjectedUSD == 0 && b.BudgetUSD == 0 {
		return ""
	}
	text := dollars(b.CostUSD) + " so far, "
	if now.Sub(time.UnixMilli(b.Since)) < projectable {
		text += "an estimate for a month needs " + view.SpanText(projectable)
	} else {
		text += dollars(b.ProjectedUSD) + " a month at the rate of the last hour"
	}
	if b.BudgetUSD > 0 {
		text += ", budget " + dollars(b.BudgetUSD) + " a month"
	}
	return text
}

// dollars is a sum with cents, or with as many decimals as it takes to be one.
func dollars(usd float64) string {
	text := strconv.FormatFloat(usd, 'f', 2, 64)
	if usd > 0 && usd < 0.01 {
		text = strings.TrimRight(strconv.FormatFloat(usd, 'f', 6, 64), "0")
	}
	return "$" + strings.TrimSuffix(text, ".")
}

func msShort(ms int64) string { return view.Short(time.Duration(ms) * time.Millisecond) }
