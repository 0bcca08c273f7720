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
	return nil
}
