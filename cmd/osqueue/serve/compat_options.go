package serve

import (
	"fmt"

	"osqueue/compat/osqueue"
)

// compatOptions are the flags of serve for clients of older systems and for browsers.
type compatOptions struct {
	origins      string
	sockets      int
	messageLimit int64

	allowed osqueue.Origins // parsed from origins
}

func (o *compatOptions) complete() (err error) {
	if o.allowed, err = osqueue.ParseOrigins(o.origins); err != nil {
		return fmt.Errorf("--cors-origins: %w", err)
	}
	if o.sockets < 1 {
		return fmt.Errorf("--ws-connections %d: must be at least 1", o.sockets)
	}
	if most := osqueue.DefaultLimits().MessageBytes; o.messageLimit < 1 || o.messageLimit > most {
		return fmt.Errorf("--ws-message-limit %d: must lie between 1 and %d", o.messageLimit, most)
	}
	return nil
}
