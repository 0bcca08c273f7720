package osqueue

import (
	"cmp"
	"slices"
	"strings"

	v1 "osqueue/client/api/v1"
)

// The legacy broker looks up names of any length; the API refuses a name that cannot
// exist. A report with such a name thus goes to a job that does not exist, and a filter
// leaves it out.

// The limits of the HTTP API.
const (
	nameBytes  = 256  // of the name of a worker or a type
	idMax      = 1024 // bytes of an id in a path
	claimTypes = 1000 // types of a claim
)

// canBeName reports whether a worker or a type can have the name.
func canBeName(name string) bool { return len(name) <= nameBytes && strings.IndexByte(name, 0) < 0 }

// canBeID reports whether a path can contain the id.
func canBeID(id string) bool { return id != "" && len(id) <= idMax }

// A filter collects the types of a claim: each once, and only types that a job can have.
// The zero value is empty.
type filter struct {
	types []string
	seen  map[string]struct{}
	names bool // at least one name was added
}

// add adds a name and reports whether it is new and valid.
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

// matchesNone is a filter that no job passes: no job has the type "" in a filter.
var matchesNone = []string{""}

// all returns the filter for the API, empty if no name was added.
func (f *filter) all() []string {
	if f.names && len(f.types) == 0 {
		return matchesNone
	}
	return f.types
}

// narrow shortens a filter with more types than a claim may name to the types that have
// jobs, types with available jobs first. If these are too many, the claim misses some.
func (n *native) narrow(c caller, types []string) ([]string, error) {
	if len(types) <= claimTypes {
		return types, nil
	}
	var stats v1.Stats
	if err := n.get(c, v1.PathStats+"?"+v1.ParamTypes+"=true", &stats); err != nil {
		return nil, err
	}
	waiting := func(name string) int { return min(stats.Types[name].Unclaimed, 1) }
	var kept []string
	for _, name := range types {
		// Running jobs may be released, and scheduled jobs become due, during this claim.
		if s, has := stats.Types[name]; has && s.Unclaimed+s.InProgress+s.Scheduled > 0 {
			kept = append(kept, name)
		}
	}
	if len(kept) == 0 {
		return matchesNone, nil
	}
	slices.SortStableFunc(kept, func(a, b string) int { return cmp.Compare(waiting(b), waiting(a)) })
	return kept[:min(len(kept), claimTypes)], nil
}
