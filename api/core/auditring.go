package core

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "osqueue/client/api/v1"
)

// auditRing keeps the newest entries of this node's audit log. It is safe for concurrent use. The
// zero value keeps none.
type auditRing struct {
	max   int64
	start string // names this ring in cursors: the numbers begin again with each process

	mu      sync.Mutex
	bytes   int64
	first   uint64 // number of entries[0]
	entries []v1.AuditEntry
}

func NewAuditRing(size int64) *auditRing {
	return &auditRing{max: size, start: strconv.FormatInt(time.Now().UnixNano(), 36)}
}

// auditOverhead is the size of an entry without its texts.
const auditOverhead = 160

func auditSize(e *v1.AuditEntry) int64 {
	return int64(auditOverhead + len(e.Node) + len(e.Principal) + len(e.Address) + len(e.Action) + len(e.Object) + len(e.LSN) + len(e.Outcome))
}

func (r *auditRing) add(e *v1.AuditEntry) {
	size := auditSize(e)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = append(r.entries, *e)
	r.bytes += size
	for len(r.entries) > 0 && r.bytes > r.max {
		r.bytes -= auditSize(&r.entries[0])
		r.entries[0] = v1.AuditEntry{}
		r.entries = r.entries[1:]
		r.first++
	}
}

// Page returns at most limit entries behind a cursor; "" is the oldest.
func (r *auditRing) Page(cursor string, limit int) (v1.AuditPage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.first
	out := v1.AuditPage{Kept: r.max, Entries: []v1.AuditEntry{}}
	if cursor != "" {
		start, number, found := strings.Cut(cursor, "-")
		n, err := strconv.ParseUint(number, 10, 64)
		if !found || err != nil {
			return out, Fail(BadRequest, "%s is %q; use the cursor of an earlier answer to %s", v1.ParamCursor, Shown(cursor), v1.PathAudit)
		}
		end := r.first + uint64(len(r.entries))
		switch {
		case start != r.start: // of an earlier process, whose entries this one does not have
		case n > end:
			return out, Fail(BadRequest, "%s is %q, which is after the newest entry", v1.ParamCursor, Shown(cursor))
		case n < r.first:
			out.Missed = r.first - n
		default:
			at = n
		}
	}
	from := r.entries[at-r.first:]
	from = from[:min(len(from), limit)]
	out.Entries = append(out.Entries, from...)
	out.NextCursor = fmt.Sprintf("%s-%d", r.start, at+uint64(len(from)))
	return out, nil
}
