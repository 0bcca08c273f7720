package btree

// Table has records by their keys, and in addition those that fall due by their times. The records are
// immutable: a change puts another one in their place. It is not safe for concurrent use; Copy returns a set by key
// that is.
type Table[R any] struct {
	*Tree[*R]           // by key
	due       *Tree[*R] // by time, then key
	at        func(*R) (ms int64, ok bool)
}

// NewTable returns an empty table. less orders the keys. at returns the time of a record; ok is false if it has none.
func NewTable[R any](less func(a, b *R) bool, at func(*R) (ms int64, ok bool)) Table[R] {
	due := func(a, b *R) bool {
		x, _ := at(a)
		if y, _ := at(b); x != y {
			return x < y
		}
		return less(a, b)
	}
	return Table[R]{New(less), New(due), at}
}

// Set stores r in place of old, the record with the same key; nil stands for none.
func (t *Table[R]) Set(old, r *R) {
	if old != nil {
		if _, ok := t.at(old); ok {
			t.due.Delete(old)
		}
	}
	if r == nil {
		t.Tree.Delete(old)
		return
	}
	t.Tree.Set(r)
	if _, ok := t.at(r); ok {
		t.due.Set(r)
	}
}

// Delete removes a record of the table.
func (t *Table[R]) Delete(r *R) { t.Set(r, nil) }

// First returns the record that falls due first; ok is false if none does.
func (t *Table[R]) First() (r *R, ok bool) { return t.due.Min() }

// Due calls fn for the records that fall due, the earliest first, until fn returns false.
func (t *Table[R]) Due(fn func(*R) bool) { t.due.Scan(fn) }

// Expire calls drop with the record that falls due first while over is true for it. drop removes the record.
func (t *Table[R]) Expire(over func(*R) bool, drop func(*R)) { t.due.DropWhile(over, drop) }
