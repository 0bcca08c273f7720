package v1

import "slices"

// WorkerInfo registers a worker, or extends its registration: POST /v1/workers.
// From then on the worker must send a request at least every 30 s (the server's
// setting); claims and reports count. Otherwise the cluster declares it dead and
// releases its jobs before their leases end.
type WorkerInfo struct {
	Name    string   `json:"name"`
	Types   []string `json:"types,omitzero"`
	Version string   `json:"version,omitzero"`
	Address string   `json:"address,omitzero"`
	// Capacity is the number of jobs that the worker can run at a time; absent: not known.
	Capacity uint32 `json:"capacity,omitzero"`
	// Instance is a random number of the worker's process, 16 hexadecimal digits. Processes may
	// share a name, at least while one replaces the other: DELETE with ?instance= ends one of
	// them, and takes only the jobs that its claims, with the same instance, got.
	Instance string `json:"instance,omitzero"`
}

// WorkerAnswer is the answer to a registration, to DELETE /v1/workers/{name}, which declares
// a worker dead, and to POST /v1/workers/{name}/quiet and …/unquiet.
type WorkerAnswer struct {
	LSN string `json:"lsn"`
}

// Worker is a registered worker.
type Worker struct {
	Name         string   `json:"name"`
	Types        []string `json:"types,omitzero"`
	Version      string   `json:"version,omitzero"`
	Address      string   `json:"address,omitzero"`
	RegisteredAt int64    `json:"registeredAt"`
	LastSeen     int64    `json:"lastSeen"`
	Running      int      `json:"running"` // jobs that it holds
	// Capacity is the number of jobs that it can run at a time; absent: it did not say.
	Capacity uint32 `json:"capacity,omitzero"`
	// QuietSince is the time, in ms, since which the worker gets no new jobs, and QuietedBy is
	// the caller who decided that. Absent: it gets jobs.
	QuietSince int64  `json:"quietSince,omitzero"`
	QuietedBy  string `json:"quietedBy,omitzero"`
	// GoneAt is the time, in ms, at which a quiet worker was declared dead. It stays in the
	// list for 24 h, so that it is quiet when it comes back. Absent: it is alive.
	GoneAt int64 `json:"goneAt,omitzero"`
	// JobIDs are the first of these jobs: in GET /v1/workers/{name} only.
	JobIDs []string `json:"jobIds,omitzero"`
}

// Takes reports whether a worker takes new jobs of a type.
func (w *Worker) Takes(jobType string) bool {
	return w.GoneAt == 0 && w.QuietSince == 0 && (len(w.Types) == 0 || slices.Contains(w.Types, jobType))
}

// WorkerList is the answer to GET /v1/workers, by name.
type WorkerList struct {
	Workers []Worker `json:"workers"`
	// NextCursor gets the next page; absent at the end.
	NextCursor string `json:"nextCursor,omitzero"`
	LSN        string `json:"lsn"` // of the state shown
}
