package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "osqueue/api/v1"
	"osqueue/fsm"
	"osqueue/storage/queuefile"
)

// inspectLists are the parts of a document that inspect can list.
var inspectLists = map[string]func(g *globals, d *queuefile.Document, now time.Time) error{
	"queues":  (*globals).listStoredQueues,
	"crons":   (*globals).listStoredCrons,
	"batches": (*globals).listStoredBatches,
	"workers": (*globals).listStoredWorkers,
	"jobs":    (*globals).listStoredJobs,
	"blocked": (*globals).listStoredBlocked,
}

var inspectListNames = []string{"queues", "crons", "batches", "workers", "jobs", "blocked"}

// listOf writes items as a long table.
func listOf[T, V any](g *globals, columns []string, items []T, view func(T) V, row func(V) []string) error {
	t := &longTable{g: g, rows: [][]string{columns}}
	for _, item := range items {
		v := view(item)
		if err := t.add(v, func() []string { return row(v) }); err != nil {
			return err
		}
	}
	return t.end()
}

// storedQueue is the settings of a type as inspect prints them.
type storedQueue struct {
	Type     string           `json:"type"`
	Settings v1.QueueSettings `json:"settings"`
}

func (g *globals) listStoredQueues(d *queuefile.Document, _ time.Time) error {
	return listOf(g, []string{"TYPE", "SETTINGS"}, d.Queues,
		func(q *fsm.QueueSettings) storedQueue { return storedQueue{Type: q.Name, Settings: storedSettings(q)} },
		func(q storedQueue) []string {
			var parts []string
			for _, r := range settingRows(q.Settings) {
				parts = append(parts, r[0]+" "+r[1])
			}
			return []string{orDash(q.Type), orDash(strings.Join(parts, ", "))}
		})
}

func storedSettings(q *fsm.QueueSettings) v1.QueueSettings {
	return v1.QueueSettings{
		Paused: q.Paused, MaxRunning: q.MaxRunning, MaxRunningPerGroup: q.MaxRunningPerGroup,
		RatePerSecond: float64(q.RateMilli) / 1000, Burst: q.Burst, LeaseMs: q.LeaseMs, TimeoutMs: q.TimeoutMs,
		MaxAttempts: unlessUnset(q.MaxAttempts), Backoff: storedBackoff(q.Backoff),
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

func storedBackoff(b fsm.Backoff) *v1.Backoff {
	if b.Kind == fsm.BackoffUnset {
		return nil
	}
	return &v1.Backoff{Kind: b.Kind.String(), BaseMs: b.BaseMs, CapMs: b.CapMs, Jitter: int64(b.Jitter)}
}

func (g *globals) listStoredCrons(d *queuefile.Document, _ time.Time) error {
	return listOf(g, cronColumns, d.Crons, func(c *fsm.Cron) v1.Cron {
		return v1.Cron{
			Name: c.Name,
			NewCron: v1.NewCron{
				Spec: c.Spec, TimeZone: c.TimeZone, Overlap: c.Overlap.String(), Missed: c.Missed.String(), Paused: c.Paused,
				Job: v1.NewJob{Type: c.Job.GetType(), Payload: c.Job.GetPayload()},
			},
			NextAt: c.NextAt, CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt, LastAt: c.LastAt, LastJobID: c.LastJobID,
			LastError: c.LastError, Fired: c.Fired, Skipped: c.Skipped, MissedCount: c.MissedCount,
		}
	}, cronRow)
}

func (g *globals) listStoredBatches(d *queuefile.Document, now time.Time) error {
	return listOf(g, batchColumns, d.Batches, func(b *fsm.JobBatch) v1.BatchInfo {
		return v1.BatchInfo{
			ID: b.ID, CreatedAt: b.CreatedAt, EndedAt: b.EndedAt, Total: b.Total, Pending: b.Pending(), Completed: b.Completed,
			Dead: b.Dead, Cancelled: b.Cancelled, CallbackID: b.Callback.GetId(), CallbackOn: callbackOn(b), Called: b.Called,
		}
	}, func(b v1.BatchInfo) []string { return batchRow(b, now) })
}

func callbackOn(b *fsm.JobBatch) string {
	if b.Callback == nil {
		return ""
	}
	return b.CallbackOn.String()
}

func (g *globals) listStoredWorkers(d *queuefile.Document, now time.Time) error {
	running := make(map[string]int)
	for _, j := range d.Jobs {
		if j.Status == fsm.InProgress {
			running[j.Worker]++
		}
	}
	return listOf(g, workerColumns, d.Workers, func(w *fsm.Worker) v1.Worker {
		return v1.Worker{
			Name: w.Name, Types: w.Types, Version: w.Version, Address: w.Address,
			RegisteredAt: w.RegisteredAt, LastSeen: w.LastSeen, Running: running[w.Name],
		}
	}, func(w v1.Worker) []string { return workerRow(w, now) })
}

func (g *globals) listStoredJobs(d *queuefile.Document, now time.Time) error {
	columns := []string{"ID", "TYPE", "STATUS", "ATTEMPTS", "AGE", "WORKER"}
	return listOf(g, columns, d.Jobs, storedJobOf, func(j storedJob) []string {
		return []string{j.ID, orDash(j.Type), j.Status, strconv.Itoa(int(j.Attempts)), agoText(j.CreatedAt, now), orDash(j.Worker)}
	})
}

func (g *globals) listStoredBlocked(d *queuefile.Document, now time.Time) error {
	blocked := slices.DeleteFunc(slices.Clone(d.Jobs), func(j *fsm.Job) bool { return j.Status != fsm.Blocked })
	return listOf(g, []string{"ID", "TYPE", "AGE", "WAITS FOR"}, blocked, storedJobOf, func(j storedJob) []string {
		return []string{j.ID, orDash(j.Type), agoText(j.CreatedAt, now), waitsText(j.Waits)}
	})
}

// waitsText names the first of the jobs that are waited for.
func waitsText(ids []string) string {
	const most = 3
	if len(ids) <= most {
		return orDash(strings.Join(ids, " "))
	}
	return fmt.Sprintf("%s and %d others", strings.Join(ids[:most], " "), len(ids)-most)
}
