package client

import (
	"context"
	"errors"
	"iter"
	"maps"
	"net/url"

	v1 "osqueue/client/api/v1"
)

// listing is a list that is read page by page.
type listing struct {
	op    string
	path  string
	query url.Values // may be nil
	limit int        // the most items to list; 0: all
}

var errCursor = errors.New("the list does not advance: the cursor of the next page is the present one")

// pages iterates over a list of T with pages of type P. part returns the items of a
// page and the cursor of the next one. An error is the last item of the sequence.
func pages[P, T any](ctx context.Context, c *caller, l listing, part func(P) ([]T, string)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		query, left := maps.Clone(l.query), l.limit
		if query == nil {
			query = url.Values{}
		}
		for {
			items, next, err := onePage(ctx, c, l, query, part)
			if err != nil {
				yield(*new(T), err)
				return
			}
			if l.limit > 0 && len(items) >= left {
				items, next = items[:left], ""
			}
			left -= len(items)
			if !hand(items, yield) || next == "" {
				return
			}
			query.Set(v1.ParamCursor, next)
		}
	}
}

// hand yields the items. It returns false if the caller ended the loop.
func hand[T any](items []T, yield func(T, error) bool) bool {
	for _, item := range items {
		if !yield(item, nil) {
			return false
		}
	}
	return true
}

func onePage[P, T any](
	ctx context.Context, c *caller, l listing, query url.Values, part func(P) ([]T, string),
) (items []T, next string, err error) {
	page, err := send[P](ctx, c, c.read(ctx, l.op, l.path, query))
	if err != nil {
		return nil, "", err
	}
	items, next = part(page)
	if next != "" && next == query.Get(v1.ParamCursor) {
		return nil, "", odd(l.op, errCursor)
	}
	return items, next, nil
}

// collect reads a whole sequence.
func collect[T any](seq iter.Seq2[T, error]) ([]T, error) {
	var out []T
	for item, err := range seq {
		if err != nil {
			return nil, err
		}
		out = append(out, item)
	}
	return out, nil
}
