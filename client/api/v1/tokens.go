package v1

import "slices"

// NewToken is the body of POST /v1/tokens. Only an admin can make tokens.
type NewToken struct {
	// Role is producer, worker, reader, operator or admin.
	Role string `json:"role"`
	// Name is for people, such as the name of the program.
	Name string `json:"name,omitzero"`
	// Types and Groups are patterns such as mail or film.*; without any the token has access
	// to all.
	Types  []string `json:"types,omitzero"`
	Groups []string `json:"groups,omitzero"`
	// Tenant owns the batches, schedules, unique keys, request keys and worker names of a token with
	// Types or Groups; tokens with the same tenant share them. Without it the token is a tenant by
	// itself, with those that replace it by rotation.
	Tenant string `json:"tenant,omitzero"`
	// Programs allows to enqueue jobs of types that run programs from their payloads.
	Programs bool `json:"programs,omitzero"`
	// RatePerSecond limits the requests of the token to each node; Burst may come at once.
	RatePerSecond float64 `json:"ratePerSecond,omitzero"`
	Burst         int64   `json:"burst,omitzero"`
	// MaxPayload limits the bytes of one payload.
	MaxPayload int64 `json:"maxPayload,omitzero"`
	// MaxJobs and MaxBytes limit the jobs that the token enqueued and that have not ended, and
	// the bytes of their payloads. Tokens that replace it by rotation share the quota.
	MaxJobs  int64 `json:"maxJobs,omitzero"`
	MaxBytes int64 `json:"maxBytes,omitzero"`
	// TTLMs is the lifetime; 0: the token does not expire.
	TTLMs int64 `json:"ttlMs,omitzero"`
}

// RotateToken is the body of POST /v1/tokens/{id}/rotate.
type RotateToken struct {
	// OverlapMs is how long the old token stays valid.
	OverlapMs int64 `json:"overlapMs,omitzero"`
	// TTLMs is the lifetime of the new token; 0: that of the old one, which may be without end.
	TTLMs int64 `json:"ttlMs,omitzero"`
}

// AccessToken is a token, without its secret.
type AccessToken struct {
	ID            string   `json:"id"`
	Role          string   `json:"role"`
	Name          string   `json:"name,omitzero"`
	Types         []string `json:"types,omitzero"`
	Groups        []string `json:"groups,omitzero"`
	Tenant        string   `json:"tenant,omitzero"` // of a limited token
	Programs      bool     `json:"programs,omitzero"`
	RatePerSecond float64  `json:"ratePerSecond,omitzero"`
	Burst         int64    `json:"burst,omitzero"`
	MaxPayload    int64    `json:"maxPayload,omitzero"`
	MaxJobs       int64    `json:"maxJobs,omitzero"`
	MaxBytes      int64    `json:"maxBytes,omitzero"`
	// Jobs and Bytes are the used part of the quota; they are counted for tokens with one only.
	Jobs      int64  `json:"jobs,omitzero"`
	Bytes     int64  `json:"bytes,omitzero"`
	ExpiresAt int64  `json:"expiresAt,omitzero"`
	MadeBy    string `json:"madeBy,omitzero"`
	CreatedAt int64  `json:"createdAt"`
	// UsedAt is the time of a use, at most an hour before the last one that the leader saw.
	UsedAt int64 `json:"usedAt,omitzero"`
}

// Self is the answer to GET /v1/self: the caller, as the node sees it.
type Self struct {
	Security string   `json:"security"`    // off, log or on
	ID       string   `json:"id,omitzero"` // of the token; empty: none is needed
	Role     string   `json:"role,omitzero"`
	Rights   []string `json:"rights"` // enqueue, work, follow, read, manage, admin, hooks
	Types    []string `json:"types,omitzero"`
	Groups   []string `json:"groups,omitzero"`
	Tenant   string   `json:"tenant,omitzero"` // that owns what the caller names; empty: it is not limited
	Programs bool     `json:"programs,omitzero"`
	// ProgramTypes are patterns of the types whose jobs only callers with Programs may enqueue.
	ProgramTypes []string `json:"programTypes,omitzero"`
	// MaxJobs and MaxBytes are the quota of the caller, Jobs and Bytes its used part.
	MaxJobs  int64 `json:"maxJobs,omitzero"`
	MaxBytes int64 `json:"maxBytes,omitzero"`
	Jobs     int64 `json:"jobs,omitzero"`
	Bytes    int64 `json:"bytes,omitzero"`
}

// Has reports whether the caller has a right.
func (s *Self) Has(right string) bool { return slices.Contains(s.Rights, right) }

// TokenCreated answers POST /v1/tokens and POST /v1/tokens/{id}/rotate. It is the only answer
// that has the secret.
type TokenCreated struct {
	ID    string `json:"id"`
	Token string `json:"token"`
	LSN   string `json:"lsn"`
}

// TokenList is the answer to GET /v1/tokens, by id.
type TokenList struct {
	Tokens []AccessToken `json:"tokens"`
	LSN    string        `json:"lsn"`
}
