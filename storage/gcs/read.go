package gcs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"osqueue/storage"
	"osqueue/storage/internal/remote"
)

// Get implements storage.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) (storage.Object, error) {
	if err := storage.ValidateKey(key); err != nil {
		return storage.Object{}, err
	}
	o, err := repeated(ctx, func() (storage.Object, error) {
		idle := remote.NewIdle(ctx, remote.IdleLimit)
		defer idle.Stop()
		data, generation, err := b.client.download(idle, b.location.Name(key))
		if err != nil {
			return storage.Object{}, idle.Explain(err)
		}
		return storage.Object{Data: data, Version: formatVersion(generation)}, nil
	})
	switch {
	case err == nil:
		return o, nil
	case absent(err):
		return o, fmt.Errorf("get %q from %s: %w", key, b.location, storage.ErrNotFound)
	}
	return o, b.explain("get", key, err)
}

// page is the part of a listing that the driver reads.
type page struct {
	Kind  string `json:"kind"`
	Items []struct {
		Name string `json:"name"`
		Size int64  `json:"size,string"`
	} `json:"items"`
	Next string `json:"nextPageToken"`
}

// listing is the kind of a page.
const listing = "storage#objects"

// List implements storage.Bucket.
func (b *Bucket) List(ctx context.Context, prefix string, fn func(storage.Info) bool) error {
	query := url.Values{
		"prefix": {b.location.Name(prefix)}, "projection": {"noAcl"},
		"fields": {"kind,nextPageToken,items(name,size)"},
	}
	last := ""
	for {
		p, err := b.page(ctx, query)
		if err != nil {
			return b.explain("list", prefix, err)
		}
		for i := range p.Items {
			name := p.Items[i].Name
			if name <= last {
				return b.explain("list", prefix, fmt.Errorf("the store lists %q after %q: its listing is not sorted, so it cannot be used", name, last))
			}
			last = name
			key, ok := b.location.Key(name)
			if ok && !fn(storage.Info{Key: key, Size: p.Items[i].Size}) {
				return nil
			}
		}
		if p.Next == "" {
			return nil
		}
		query.Set("pageToken", p.Next)
	}
}

// page reads one page of a listing.
func (b *Bucket) page(ctx context.Context, query url.Values) (page, error) {
	return repeated(ctx, func() (p page, err error) {
		idle := remote.NewIdle(ctx, remote.IdleLimit)
		defer idle.Stop()
		err = b.client.sendForJSON(idle, http.MethodGet, b.client.object("")+"?"+query.Encode(), "", nil, &p)
		if err == nil && p.Kind != listing {
			err = errors.New("the answer is not a listing: is this a GCS endpoint?")
		}
		return p, idle.Explain(err)
	})
}
