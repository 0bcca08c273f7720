package archive

import (
	"cmp"
	"slices"
	"strings"

	"osqueue/fsm"
)

// victims holds the names of objects that may be deleted, oldest first, up to a maximum number.
type victims struct {
	most int
	all  []victim
	cut  bool // whether newer ones were dropped
}

// victim is an object that may be deleted.
type victim struct {
	last fsm.LSN
	kind kind
	stem int // the length of the directory at the beginning of key
	key  string
}

// compareVictims sorts objects by the order of their removal: a checkpoint is removed after the
// older ones, and its manifest before its parts.
func compareVictims(a, b victim) int {
	return cmp.Or(a.last.Compare(b.last), strings.Compare(a.key[:a.stem], b.key[:b.stem]),
		cmp.Compare(a.kind, b.kind), strings.Compare(a.key, b.key))
}

func (v *victims) add(key string, n name) {
	x := victim{last: n.last, kind: n.kind, stem: strings.LastIndexByte(key, '/'), key: key}
	if !n.kind.ofCheckpoint() {
		x.stem = strings.LastIndexByte(key, '.')
	}
	if v.cut && compareVictims(x, v.all[v.most-1]) > 0 {
		return
	}
	v.all = append(v.all, x)
	if len(v.all) >= 2*v.most {
		v.sort()
		clear(v.all[v.most:])
		v.all, v.cut = v.all[:v.most], true
	}
}

func (v *victims) sort() { slices.SortFunc(v.all, compareVictims) }

// keys returns the keys of all victims.
func (v *victims) keys() []string {
	v.sort()
	keys := make([]string, len(v.all))
	for i := range v.all {
		keys[i] = v.all[i].key
	}
	return keys
}

// needless returns the victims that are not needed after a checkpoint.
func (v *victims) needless(oldest point) []string {
	v.sort()
	var keys []string
	for _, x := range v.all {
		if (name{kind: x.kind, last: x.last}).needless(oldest) {
			keys = append(keys, x.key)
		}
	}
	return keys
}
