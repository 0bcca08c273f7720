package main

import (
	"fmt"

	"osqueue/client"
)

// ackFlag is a flag whose value is an ack level.
type ackFlag client.Ack

// String implements pflag.Value.
func (f *ackFlag) String() string { return string(*f) }

// Set implements pflag.Value.
func (f *ackFlag) Set(text string) error {
	switch level := client.Ack(text); level {
	case client.AckQuorum, client.AckObject:
		*f = ackFlag(level)
		return nil
	}
	return fmt.Errorf("%q: use %s or %s", text, client.AckQuorum, client.AckObject)
}

// Type implements pflag.Value.
func (f *ackFlag) Type() string { return "level" }
