package units

import (
	"fmt"

	"osqueue/client"
)

// Ack is a flag whose value is an ack level.
type Ack client.Ack

// String implements pflag.Value.
func (f *Ack) String() string { return string(*f) }

// Set implements pflag.Value.
func (f *Ack) Set(text string) error {
	switch level := client.Ack(text); level {
	case client.AckQuorum, client.AckObject:
		*f = Ack(level)
		return nil
	}
	return fmt.Errorf("%q: use %s or %s", text, client.AckQuorum, client.AckObject)
}

// Type implements pflag.Value.
func (f *Ack) Type() string { return "level" }
