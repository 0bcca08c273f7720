package client

import (
	"context"
	"errors"
	"iter"
	"maps"
	"net/url"

	v1 "osqueue/client/api/v1"
)

var errCursor = errors.New("the list does not advance: the cursor of the next page is the present one")

// pages iterates over a list of T with pages of type P, up to list.limit items. part returns the items of a
// page and the cursor of the next one. An error is the last item of the sequence.
func pages[P, T any](ctx context.Context, c *caller, list call, part func(P) ([]T, string)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		l, left := list, list.limit
		l.query = url.Values{}
		maps.Copy(l.query, list.query)
		for {
			items, next, err := onePage(ctx, c, l, part)
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
			l.query.Set(v1.ParamCursor, next)
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

func onePage[P, T any](ctx context.Context, c *caller, l call, part func(P) ([]T, string)) (items []T, next string, err error) {
	page, err := sendRead[P](ctx, c, l)
	if err != nil {
		return nil, "", err
	}
	items, next = part(page)
	if next != "" && next == l.query.Get(v1.ParamCursor) {
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
