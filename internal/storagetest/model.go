package storagetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"osqueue/storage"
)

// model runs random sequences of operations against the bucket and against a
// map, and compares every answer.
func (s *suite) model(t *testing.T, b storage.Bucket) {
	ctx := bounded(t)
	other := s.second(t, b)
	run := 0
	rapid.Check(t, func(t *rapid.T) {
		run++
		m := &machine{
			ctx: ctx, handles: []storage.Bucket{b, other}, prefix: fmt.Sprintf("m%d/", run),
			objects: map[string]storage.Object{}, old: []storage.Version{"", "0"}, repeats: s.repeats,
		}
		t.Repeat(map[string]func(*rapid.T){
			"": m.holds, "create": m.create, "replace": m.replace, "replaceStale": m.replaceStale, "delete": m.remove,
		})
	})
}

type machine struct {
	ctx     context.Context
	handles []storage.Bucket
	prefix  string
	objects map[string]storage.Object
	old     []storage.Version // every version ever seen
	repeats bool
	touched string // the key of the last operation
}

func (m *machine) draw(t *rapid.T) (b storage.Bucket, key string, data []byte) {
	b = rapid.SampledFrom(m.handles).Draw(t, "handle")
	m.touched = m.prefix + rapid.SampledFrom([]string{"a", "b/c", "b/d"}).Draw(t, "key")
	return b, m.touched, rapid.SliceOfN(rapid.Byte(), 0, 2).Draw(t, "data")
}

func (m *machine) create(t *rapid.T) {
	b, key, data := m.draw(t)
	w := b.PutIfAbsent(m.ctx, key, data)
	_, exists := m.objects[key]
	m.expect(t, w, !exists, key, data)
}

func (m *machine) replace(t *rapid.T) {
	b, key, data := m.draw(t)
	o, exists := m.objects[key]
	m.expect(t, b.PutIfMatch(m.ctx, key, data, o.Version), exists, key, data)
}

func (m *machine) replaceStale(t *rapid.T) {
	b, key, data := m.draw(t)
	v := rapid.SampledFrom(m.old).Draw(t, "version")
	o, exists := m.objects[key]
	m.expect(t, b.PutIfMatch(m.ctx, key, data, v), exists && o.Version == v, key, data)
}

func (m *machine) remove(t *rapid.T) {
	b, key, _ := m.draw(t)
	if err := b.Delete(m.ctx, key); err != nil {
		t.Fatalf("delete: %v", err)
	}
	delete(m.objects, key)
}

// expect checks one write's answer and applies it to the model.
func (m *machine) expect(t *rapid.T, w storage.Write, commits bool, key string, data []byte) {
	if !commits {
		mustConflict(t, w)
		return
	}
	v := mustCommit(t, w)
	if !m.repeats && slices.Contains(m.old, v) {
		t.Fatalf("version %q came back", v)
	}
	m.old = append(m.old, v)
	m.objects[key] = storage.Object{Data: data, Version: v}
}

// holds compares the object last touched, and the listing, with the model.
func (m *machine) holds(t *rapid.T) {
	if m.touched == "" {
		return
	}
	got, err := m.handles[0].Get(m.ctx, m.touched)
	want, exists := m.objects[m.touched]
	switch {
	case !exists && !errors.Is(err, storage.ErrNotFound):
		t.Fatalf("get %q = %v, want ErrNotFound", m.touched, err)
	case exists && (err != nil || !slices.Equal(got.Data, want.Data) || got.Version != want.Version):
		t.Fatalf("get %q = %+v, %v, want %+v", m.touched, got, err, want)
	}
	keys := mustKeys(m.ctx, t, m.handles[0], m.prefix)
	if !slices.Equal(keys, slices.Sorted(maps.Keys(m.objects))) {
		t.Fatalf("list = %q, want %q", keys, slices.Sorted(maps.Keys(m.objects)))
	}
}
