package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"osqueue/client"
)

// mapItem is a line with its job, or the error that ends the input.
type mapItem struct {
	number int
	line   string
	job    client.NewJob
	err    error
}

// itemsAhead is the number of lines that are read ahead of sending.
const itemsAhead = 256

// availableBatches makes batches of the available lines: if the source is slow, its first
// lines do not wait for the others. The sequence ends with ctx.
func availableBatches(ctx context.Context, items iter.Seq[mapItem], most int) iter.Seq2[batch, error] {
	ahead := make(chan mapItem, itemsAhead)
	go func() {
		defer close(ahead)
		for item := range items {
			select {
			case ahead <- item:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func(yield func(batch, error) bool) {
		g := gatherer{ahead: ahead, most: most}
		for {
			b, err := g.next(ctx)
			if len(b.jobs) > 0 && !yield(b, nil) {
				return
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(batch{}, err)
				}
				return
			}
		}
	}
}

// gatherer collects lines into batches.
type gatherer struct {
	ahead <-chan mapItem
	most  int      // bytes of a batch
	left  *mapItem // did not fit into the batch before
}

// next waits for a line, and adds the lines that are available then. It returns an error
// together with the lines before it; io.EOF is the end.
func (g *gatherer) next(ctx context.Context) (b batch, err error) {
	size := 0
	for len(b.jobs) < client.MaxBatchJobs {
		item, err := g.item(ctx, len(b.jobs) == 0)
		if err != nil {
			if errors.Is(err, errNoneYet) {
				err = nil
			}
			return b, err
		}
		size += client.EncodedSize(item.job)
		if size > g.most && len(b.jobs) > 0 {
			g.left = &item
			return b, nil
		}
		if len(b.jobs) == 0 {
			b.first = item.number
		}
		b.last = item.number
		b.jobs, b.lines, b.inputs = append(b.jobs, item.job), append(b.lines, item.number), append(b.inputs, item.line)
	}
	return b, nil
}

// errNoneYet means that no line is available at the moment.
var errNoneYet = errors.New("there is no line yet")

// item returns the next line. If wait is false, it may return errNoneYet.
func (g *gatherer) item(ctx context.Context, wait bool) (mapItem, error) {
	if g.left != nil {
		item := *g.left
		g.left = nil
		return item, nil
	}
	if !wait {
		select {
		case item, more := <-g.ahead:
			return took(item, more)
		default:
			return mapItem{}, errNoneYet
		}
	}
	select {
	case item, more := <-g.ahead:
		return took(item, more)
	case <-ctx.Done():
		return mapItem{}, fmt.Errorf("read the lines: %w", context.Cause(ctx))
	}
}

func took(item mapItem, more bool) (mapItem, error) {
	if !more {
		return item, io.EOF
	}
	return item, item.err
}
