package bucket

import (
	"context"
	"fmt"

	"osqueue/cmd/osqueue/units"
	"osqueue/cmd/osqueue/view"
	"osqueue/storage"
	"osqueue/storage/archive"
)

var spanColumns = view.Columns("FROM", "TO", "SINCE", "UNTIL", "LENGTH")

// showHistory prints the states that can be restored.
func (in *inspection) showHistory(ctx context.Context, bucket storage.Bucket) error {
	h, err := openHistory(ctx, bucket, in.bucket)
	if err != nil {
		return err
	}
	t := &view.LongTable{G: in.g, Columns: spanColumns}
	for _, s := range h.Spans() {
		span := spanOf(s)
		if err := t.Add(span, span.row); err != nil {
			return err
		}
	}
	if err := t.End(); err != nil {
		return err
	}
	u, err := archive.Usage(ctx, bucket, h.Document().Lineage())
	if err != nil {
		return err
	}
	return view.WritePlain(in.g.Err, usageText(u))
}

// usageText describes the size of a history in the bucket.
func usageText(u archive.Used) string {
	if u.Checkpoints+u.Log == 0 {
		return "The bucket contains only the document.\n"
	}
	return fmt.Sprintf("In the bucket: %s (%s), %s of the log (%s).\n",
		count(u.Checkpoints, "checkpoint"), units.BytesText(u.CheckpointBytes), count(u.Log, "object"), units.BytesText(u.LogBytes))
}
