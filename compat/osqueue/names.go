package osqueue

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	v1 "osqueue/api/v1"
)

// The original takes names of any length and looks for them; the API refuses those
// that it cannot have given to anything. So a report with such a name is one on a job
// that is not there, and a filter does without them.

// Limits of the HTTP API.
const (
	nameBytes  = 256  // of the name of a worker or a type
	idMax      = 1024 // bytes of an id in a path
	claimTypes = 1000 // types of a claim
)

// canBeName reports whether a worker or a type can have that name.
func canBeName(name string) bool { return len(name) <= nameBytes && strings.IndexByte(name, 0) < 0 }

// canBeID reports whether a path can have that id.
func canBeID(id string) bool { return id != "" && len(id) <= idMax }

// filter collects the types that a claim names: each once, and only those that a job
// can have. The zero value is empty.
type filter struct {
	types []string
	seen  map[string]struct{}
	names bool // there was something to collect
}

// add adds a name, and reports whether it is one that is not there yet.
func (f *filter) add(name string) bool {
	f.names = true
	if name == "" || !canBeName(name) {
		return false
	}
	if f.seen == nil {
		f.seen = make(map[string]struct{})
	}
	if _, again := f.seen[name]; again {
		return false
	}
	f.seen[name] = struct{}{}
	f.types = append(f.types, name)
	return true
}

// nobody is a filter that no job passes: the API knows no other that is not empty.
var nobody = []string{""}

// all is the filter for the API: empty if nothing was collected.
func (f *filter) all() []string {
	if f.names && len(f.types) == 0 {
		return nobody
	}
	return f.types
}

// narrow makes a filter out of one that names more types than a claim may: those of
// them that have jobs, with jobs that wait first. Only if these are too many, too, the
// claim does not see all of them.
func (n *native) narrow(c caller, types []string) ([]string, error) {
	if len(types) <= claimTypes {
		return types, nil
	}
	var stats v1.Stats
	if err := n.do(c, http.MethodGet, v1.PathStats+"?"+v1.ParamTypes+"=true", nil, &stats); err != nil {
		return nil, err
	}
	waiting := func(name string) int { return min(stats.Types[name].Unclaimed, 1) }
	var kept []string
	for _, name := range types {
		// What runs may be given back, and what is scheduled fall due, in this very claim.
		if s, has := stats.Types[name]; has && s.Unclaimed+s.InProgress+s.Scheduled > 0 {
			kept = append(kept, name)
		}
	}
	if len(kept) == 0 {
		return nobody, nil
	}
	slices.SortStableFunc(kept, func(a, b string) int { return cmp.Compare(waiting(b), waiting(a)) })
	return kept[:min(len(kept), claimTypes)], nil
}
