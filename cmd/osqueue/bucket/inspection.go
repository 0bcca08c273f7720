package bucket

import (
	"time"

	"osqueue/cmd/osqueue/view"
)

// inspection is one run of "osqueue inspect".
type inspection struct {
	offline
	bucket string
	id     string // of the job that is asked for; "": none
	list   string // the part that is asked for; "": none
	at     atFlag
	filter view.Filter
	now    time.Time
}
