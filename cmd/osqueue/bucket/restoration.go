package bucket

import (
	"strings"
	"time"

	"osqueue/cluster"
)

// restoration is one run of "osqueue restore" or "osqueue branch".
type restoration struct {
	offline
	from, to string // bucket URLs; to may be "" in a dry run
	document string // the key in from whose history it is
	at       atFlag
	dryRun   bool
	resume   bool
	replace  bool
	branch   bool          // it is a branch: for staging
	silence  time.Duration // after which a broker counts as dead
	now      time.Time
	changed  bool // the document at --to changed while it was watched
}

// inPlace reports whether the restore replaces the source itself.
func (r *restoration) inPlace() bool {
	return strings.TrimRight(r.from, "/") == strings.TrimRight(r.to, "/")
}

var defaultBrokerTimeout = cluster.DefaultConfig().BrokerTimeout
