package v1

// WorkerInfo registers a worker, or extends its registration: POST /v1/workers.
// From then on the worker must send a request at least every 30 s (the server's
// setting); claims and reports count. Otherwise the cluster declares it dead and
// releases its jobs before their leases end.
type WorkerInfo struct {
	Name    string   `json:"name"`
	Types   []string `json:"types,omitzero"`
	Version string   `json:"version,omitzero"`
	Address string   `json:"address,omitzero"`
}

// WorkerAnswer is the answer to a registration and to DELETE
// /v1/workers/{name}, which declares a worker dead.
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
	// JobIDs are the first of these jobs: in GET /v1/workers/{name} only.
	JobIDs []string `json:"jobIds,omitzero"`
}

// WorkerList is the answer to GET /v1/workers, by name.
type WorkerList struct {
	Workers []Worker `json:"workers"`
	// NextCursor gets the next page; absent at the end.
	NextCursor string `json:"nextCursor,omitzero"`
	LSN        string `json:"lsn"` // of the state shown
}
