package link

// Service is the service behind a port.
type Service string

// The services of a cluster; "" in a Link is all of them.
const (
	Raft   Service = "raft"
	HTTP   Service = "http"
	Bucket Service = "bucket"
)

// Names of parties that are no processes of a cluster.
const (
	Client = "client" // the test itself, and unknown processes
	Store  = "store"  // customary owner of a Bucket port
)

// Link is one direction between two parties: the bytes that From sends to To on
// connections to a port of that service, whichever side dialed. An empty field stands
// for all.
type Link struct {
	From, To string
	Service  Service
}

// Both returns the links between two parties, there and back; of these services, if any
// are named.
func Both(a, b string, only ...Service) []Link {
	if len(only) == 0 {
		only = []Service{""}
	}
	var links []Link
	for _, s := range only {
		links = append(links, Link{a, b, s}, Link{b, a, s})
	}
	return links
}

// Between returns the links between parties of different groups.
func Between(groups ...[]string) []Link {
	var links []Link
	for i, group := range groups {
		for _, other := range groups[i+1:] {
			for _, a := range group {
				for _, b := range other {
					links = append(links, Both(a, b)...)
				}
			}
		}
	}
	return links
}

// String formats the link as in "n1→n2 raft", with * for all parties.
func (l Link) String() string {
	s := orAll(l.From) + "→" + orAll(l.To)
	if l.Service != "" {
		s += " " + string(l.Service)
	}
	return s
}

func orAll(name string) string {
	if name == "" {
		return "*"
	}
	return name
}

// covers reports whether one, which names everything, is among those that l is.
func (l Link) covers(one Link) bool {
	return (l.From == "" || l.From == one.From) &&
		(l.To == "" || l.To == one.To) &&
		(l.Service == "" || l.Service == one.Service)
}

func anyCovers(links []Link, one Link) bool {
	for _, l := range links {
		if l.covers(one) {
			return true
		}
	}
	return false
}
