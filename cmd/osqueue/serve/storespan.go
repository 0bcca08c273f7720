package serve

import (
	"time"

	"osqueue/cmd/osqueue/units"
)

// storeSpan is a flag whose value is a duration. Its zero value selects the default of
// the store and is not shown.
type storeSpan struct {
	given bool
	d     time.Duration
}

// String implements pflag.Value.
func (s *storeSpan) String() string {
	if !s.given {
		return ""
	}
	return s.d.String()
}

// Set implements pflag.Value.
func (s *storeSpan) Set(text string) error {
	d, err := units.ParseSpan(text)
	s.given, s.d = true, d
	return err
}

// Type implements pflag.Value.
func (*storeSpan) Type() string { return "duration" }

// or returns the given value, or else the default.
func (s *storeSpan) or(d time.Duration) time.Duration {
	if s.given {
		return s.d
	}
	return d
}
