package bucket

import (
	"fmt"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
	"osqueue/fsm"
	"osqueue/storage/document"
)

// stateSummary is the report of inspect about a state.
type stateSummary struct {
	stateStamp
	Epoch     uint64         `json:"epoch,omitzero"`
	Node      string         `json:"node,omitzero"`
	Lineage   string         `json:"lineage,omitzero"`
	Archive   *storedArchive `json:"archive,omitzero"` // of the document
	Added     int            `json:"addedByHand,omitzero"`
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

// storedArchive describes the objects that a document refers to.
type storedArchive struct {
	CheckpointLSN string `json:"baseLsn"`
	CheckpointAt  int64  `json:"baseAt"`  // the queue's clock, ms
	Objects       int    `json:"objects"` // of the log
	Entries       uint64 `json:"entries"` // behind the checkpoint, those in the document included
	Bytes         int64  `json:"bytes"`   // in the bucket, without the document
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
	d, m := s.doc, s.view.Meta()
	out := stateSummary{
		stateStamp: s.stamp(now),
		Archive:    describeArchive(d.Archive),
		Completed:  m.CompletedTotal,
		Jobs:       make(map[string]int),
		Types:      make(map[string]int),
		Workers:    s.view.WorkerCount(),
		Crons:      s.view.CronCount(),
	}
	for _, j := range d.View {
		if s.machine.Job(j.ID) == nil {
			out.Added++
		}
	}
	if h := d.Header; h != nil {
		out.Epoch, out.Node, out.Lineage = h.Epoch, h.Node, h.Lineage
	}
	for status, n := range s.view.Counts() {
		if n > 0 {
			out.Jobs[fsm.Status(status).String()] = n
		}
	}
	s.machine.Types(func(name string, t fsm.TypeStats) bool {
		if n := t.Counts.Of(fsm.Unclaimed) + t.Counts.Of(fsm.Scheduled) + t.Counts.Of(fsm.Blocked); n > 0 {
			out.Types[name] = n
		}
		return true
	})
	s.countBeside(&out)
	return out
}

// countBeside counts the records other than jobs.
func (s *storedState) countBeside(out *stateSummary) {
	s.view.Queues(func(q *fsm.QueueSettings) bool {
		out.Queues++
		if q.Paused {
			out.Paused++
		}
		return true
	})
	s.view.Batches("", func(b *fsm.JobBatch) bool {
		out.Batches++
		if b.EndedAt == 0 {
			out.Open++
		}
		return true
	})
}

// showState prints the summary of a state.
func showState(g *view.Globals, s *storedState, now time.Time) error {
	sum := s.summary(now)
	if g.JSON {
		return g.WriteJSON(sum)
	}
	rows := [][]string{
		{"broker", view.OrDash(sum.Broker)},
		{"written", pointText(sum.Heartbeat, now)},
	}
	if sum.LSN != "" {
		lsn := sum.LSN
		if s.past {
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
	rows = append(rows, archiveRows(&sum)...)
	rows = append(rows, []string{"completions", fmt.Sprint(sum.Completed)})
	for _, st := range view.AllStatuses {
		rows = append(rows, []string{v1.StatusWord(st), fmt.Sprint(sum.Jobs[st])})
	}
	return g.Table(append(rows,
		[]string{"workers", fmt.Sprint(sum.Workers)},
		[]string{"queues", fmt.Sprintf("%d with settings, %d of them paused", sum.Queues, sum.Paused)},
		[]string{"crons", fmt.Sprint(sum.Crons)},
		[]string{"batches", fmt.Sprintf("%d, %d of them open", sum.Batches, sum.Open)},
	))
}

// archiveRows describes where the state is stored.
func archiveRows(s *stateSummary) (rows [][]string) {
	a := s.Archive
	if a == nil {
		return nil
	}
	rows = append(rows, []string{"archive", fmt.Sprintf("checkpoint %s and %s after it, %s of the log; %s",
		a.CheckpointLSN, countEntries(a.Entries), count(a.Objects, "object"), view.BytesText(a.Bytes))})
	if s.Added > 0 {
		rows = append(rows, []string{"added by hand", fmt.Sprintf("%d jobs, which the next leader enqueues", s.Added)})
	}
	return rows
}
