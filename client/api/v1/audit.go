package v1

// AuditEntry is one line of the audit log.
type AuditEntry struct {
	Time      string `json:"time"`          // RFC 3339, UTC
	Node      string `json:"node,omitzero"` // that recorded the request
	Principal string `json:"principal,omitzero"`
	Address   string `json:"address"`
	Action    string `json:"action"` // method and route
	Object    string `json:"object,omitzero"`
	LSN       string `json:"lsn,omitzero"`
	Status    int    `json:"status"`
	Outcome   string `json:"outcome"` // "ok", or the tag of the refusal
}

// AuditPage is the answer to GET /v1/audit: entries that the asked node keeps in memory, oldest
// first.
type AuditPage struct {
	Node    string       `json:"node"`
	Kept    int64        `json:"kept"` // bytes of entries that the node keeps at most; 0: none
	Entries []AuditEntry `json:"entries"`
	// Missed is the number of entries behind the cursor that the node no longer has.
	Missed uint64 `json:"missed,omitzero"`
	// NextCursor asks for the entries behind these, also if there are none yet.
	NextCursor string `json:"nextCursor"`
}
