package view

import (
	"context"
	"fmt"

	"osqueue/client"
)

// written is the JSON form of the answer to a write, with the LSNs that show how durable
// the write is.
type written[T any] struct {
	Answer    T          `json:",embed"`
	Committed client.Ack `json:"committed,omitzero"`
}

// Acked runs a function that may write. If the write took effect but did not reach the
// wanted ack level, acked prints a note on stderr and returns no error.
func (g *Globals) Acked(ctx context.Context, do func(context.Context) error) error {
	if err := do(client.WithReceipt(ctx, &g.receipt)); err != nil {
		return err
	}
	if g.ack != client.AckObject || g.receipt.Committed() != client.AckQuorum {
		return nil
	}
	return WritePlain(g.Err, fmt.Sprintf("the change is committed, but not in the bucket yet (LSN %s); osqueue status shows the lag of the bucket\n", g.receipt.LSN()))
}

// WriteWritten writes the answer to a write as JSON, with the receipt of all writes of
// this process.
func WriteWritten[T any](g *Globals, answer T) error {
	return g.WriteJSON(written[T]{Answer: answer, Committed: g.receipt.Committed()})
}
