package bucket

import (
	"fmt"
	"slices"
	"strings"

	"osqueue/api"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/units"
	"osqueue/cmd/osqueue/view"
	"osqueue/fsm"
)

// inspectLists are the parts of a state that inspect can list.
var inspectLists = map[string]func(in *inspection, s *storedState) error{
	"queues":  (*inspection).listQueues,
	"crons":   (*inspection).listCrons,
	"batches": (*inspection).listBatches,
	"workers": (*inspection).listWorkers,
	"hooks":   (*inspection).listHooks,
	"types":   (*inspection).listTypes,
	"jobs":    (*inspection).listJobs,
	"blocked": (*inspection).listBlocked,
	"history": func(*inspection, *storedState) error { return nil }, // of no state: see showHistory
}

var inspectListNames = []string{"queues", "crons", "batches", "workers", "hooks", "types", "jobs", "blocked", "history"}

// listOf writes what each yields, as a long table of at most --limit rows.
func listOf[T, V any](in *inspection, columns []view.Column, each func(fn func(T) bool), wire func(T) V, row func(V) []string) error {
	t := &view.LongTable{G: in.g, Columns: columns}
	n, more := 0, false
	var err error
	each(func(item T) bool {
		if n++; !in.filter.All && n > in.filter.Limit {
			more = true
			return false
		}
		v := wire(item)
		err = t.Add(v, func() []string { return row(v) })
		return err == nil
	})
	if err == nil {
		err = t.End()
	}
	if err == nil && more {
		err = view.WritePlain(in.g.Err, fmt.Sprintf("There are more than %d; see --limit and --all.\n", in.filter.Limit))
	}
	return err
}

// storedQueue is the settings of a type as inspect prints them.
type storedQueue struct {
	Type     string           `json:"type"`
	Settings v1.QueueSettings `json:"settings"`
	Pause    *v1.Pause        `json:"pause,omitzero"`
}

func (in *inspection) listQueues(s *storedState) error {
	return listOf(in, view.Columns("TYPE", "SETTINGS"), s.view.Queues,
		func(q *fsm.QueueSettings) storedQueue {
			return storedQueue{Type: q.Name, Settings: storedSettings(q), Pause: api.PauseOf(q)}
		},
		func(q storedQueue) []string {
			var parts []string
			for _, r := range append(view.SettingRows(q.Settings), view.PauseRows(q.Pause)...) {
				parts = append(parts, r[0]+" "+r[1])
			}
			return []string{view.OrDash(q.Type), view.OrDash(strings.Join(parts, ", "))}
		})
}

func storedSettings(q *fsm.QueueSettings) v1.QueueSettings {
	return v1.QueueSettings{
		Paused: q.Paused, MaxRunning: q.MaxRunning, MaxRunningPerGroup: q.MaxRunningPerGroup,
		RatePerSecond: float64(q.RateMilli) / 1000, Burst: q.Burst, LeaseMs: q.LeaseMs, TimeoutMs: q.TimeoutMs,
		MaxAttempts: unlessUnset(q.MaxAttempts), Backoff: api.BackoffOf(q.Backoff),
		RetainMs: unlessUnset(q.RetainMs), RetainCount: unlessUnset(q.RetainCount),
		MaxJobs: q.MaxJobs, MaxBytes: q.MaxBytes, MaxPayload: q.MaxPayload,
	}
}

func unlessUnset(n int64) *int64 {
	if n == fsm.Unset {
		return nil
	}
	return &n
}

func (in *inspection) listCrons(s *storedState) error {
	each := func(fn func(*fsm.Cron) bool) { s.view.Crons("", fn) }
	return listOf(in, view.CronColumns, each, func(c *fsm.Cron) v1.Cron {
		return v1.Cron{
			Name: c.Name,
			NewCron: v1.NewCron{
				Spec: c.Spec, TimeZone: c.TimeZone, Overlap: c.Overlap.String(), Missed: c.Missed.String(), Paused: c.Paused,
				Job: v1.NewJob{Type: c.Job.GetType(), Payload: c.Job.GetPayload()},
			},
			NextAt: c.NextAt, CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt, LastAt: c.LastAt, LastJobID: c.LastJobID,
			LastError: c.LastError, Fired: c.Fired, Skipped: c.Skipped, MissedCount: c.MissedCount,
		}
	}, view.CronRow)
}

func (in *inspection) listBatches(s *storedState) error {
	each := func(fn func(*fsm.JobBatch) bool) { s.view.Batches("", fn) }
	return listOf(in, view.BatchColumns, each, func(b *fsm.JobBatch) v1.BatchInfo {
		return v1.BatchInfo{
			ID: b.ID, CreatedAt: b.CreatedAt, EndedAt: b.EndedAt, Total: b.Total, Pending: b.Pending(), Completed: b.Completed,
			Dead: b.Dead, Cancelled: b.Cancelled, CallbackID: b.Callback.GetId(), CallbackOn: callbackOn(b), Called: b.Called,
		}
	}, func(b v1.BatchInfo) []string { return view.BatchRow(b, in.now) })
}

func callbackOn(b *fsm.JobBatch) string {
	if b.Callback == nil {
		return ""
	}
	return b.CallbackOn.String()
}

func (in *inspection) listWorkers(s *storedState) error {
	return listOf(in, view.WorkerColumns, s.view.Workers, func(w *fsm.Worker) v1.Worker { return api.WorkerOf(s.view, w) }, func(w v1.Worker) []string { return view.WorkerRow(w, in.now) })
}

// listHooks lists the webhooks, without their secrets.
func (in *inspection) listHooks(s *storedState) error {
	return listOf(in, view.HookColumns, s.view.Hooks, func(h *fsm.Hook) v1.Hook { return api.HookOf(s.view, h) }, view.HookRow)
}

// jobs calls fn for the jobs that are chosen, first in first out.
func (in *inspection) jobs(s *storedState, statuses []fsm.Status) func(fn func(*fsm.Job) bool) {
	return func(fn func(*fsm.Job) bool) {
		s.view.Merged(statuses, 0, func(j *fsm.Job) bool { return !isChosen(&in.filter, j) || fn(j) })
	}
}

// The statuses that are listed if no status is given, and with all.
var (
	notEnded    = []fsm.Status{fsm.Blocked, fsm.Scheduled, fsm.Unclaimed, fsm.InProgress}
	everyStatus = append([]fsm.Status{fsm.Completed, fsm.Dead, fsm.Cancelled}, notEnded...)
)

func (in *inspection) listJobs(s *storedState) error {
	statuses, err := chosenStatuses(&in.filter)
	if err != nil {
		return err
	}
	switch {
	case len(in.filter.Status) == 0:
		statuses = notEnded
	case slices.Contains(in.filter.Status, v1.StatusAll):
		statuses = everyStatus
	}
	return listOf(in, view.JobColumns, in.jobs(s, statuses), jobOfState, func(j v1.Job) []string { return view.JobRow(j, in.now) })
}

func (in *inspection) listBlocked(s *storedState) error {
	columns := view.Columns("ID", "TYPE", "AGE", "WAITS FOR")
	return listOf(in, columns, in.jobs(s, []fsm.Status{fsm.Blocked}), jobOfState, func(j v1.Job) []string {
		return []string{j.ID, view.OrDash(j.Type), units.AgoText(j.CreatedAt, in.now), waitsText(j.WaitsFor)}
	})
}
