package election

import (
	"context"

	"osqueue/storage"
)

// commit sends d until it is certain what became of it. moved says what to do
// when the document is neither the base nor a version of ours: an error ends the
// attempt, nil repeats it on whatever the fence's version then is.
func (f *Fence) commit(ctx context.Context, d *draft, moved func(o storage.Object, found bool) error) error {
	for attempt := 0; ; attempt++ {
		w := put(ctx, f.bucket, f.key, f.version, d.data)
		switch {
		case w.Outcome == storage.Committed:
			f.version = w.Version
			f.landed(d.sent)
			if attempt == 0 {
				f.spare = d.data // an attempt that was given up may still be read from it
			}
			return nil
		case attempt == 0 && notApplied(w.Err):
			return w.Err
		}
		o, found, err := getSettling(ctx, f.bucket, f.key)
		switch {
		case err != nil:
			return unknown(w, err)
		case o.Version == f.version: // also when there still is none
			if !pause(ctx, attempt) {
				return unknown(w, ctx.Err())
			}
		case f.recognise(o):
			if f.sent[0].id == d.id {
				return nil
			}
			f.sent = append(f.sent, d.sent)
		default:
			if err := moved(o, found); err != nil {
				return err
			}
		}
	}
}

// recognise makes the document the base if its bytes are ours: a version whose
// answer was lost, or the base itself, which somebody has copied onto itself.
func (f *Fence) recognise(o storage.Object) bool {
	s, ok := f.find(o.Data)
	if ok {
		f.version = o.Version
		f.landed(s)
	}
	return ok
}

// moved tells a takeover from an edit. It never lets a write go on.
func (f *Fence) moved(o storage.Object, found bool) error {
	if !found {
		return &ExternalEditError{}
	}
	seen, err := observe(f.key, o)
	if err != nil {
		return err
	}
	f.noteHistory(seen.Doc.Header)
	if f.fenced = f.successor(seen); f.fenced != nil {
		return f.fenced
	}
	return &ExternalEditError{Observed: seen}
}

// successor is the broker that has the document now, if it is not this one. A
// document without a broker or a header was edited: a broker leaves both.
func (f *Fence) successor(seen Observed) *FencedError {
	d, h := seen.Doc, seen.Doc.Header
	other := d.Broker != nil && *d.Broker != f.me.Address
	ours := h == nil || h.Epoch == f.epoch && h.Lineage == f.lineage && h.Cluster == f.me.Cluster && h.Node == f.me.Node
	switch {
	case !ours:
		return &FencedError{Epoch: h.Epoch, Node: h.Node, Cluster: h.Cluster, Address: d.BrokerAddress()}
	case other:
		return &FencedError{Address: d.BrokerAddress()}
	}
	return nil
}
