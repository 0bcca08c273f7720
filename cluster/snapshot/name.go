package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"osqueue/storage/blob"
)

// root is the prefix of all snapshots in a bucket.
const root = "snapshots/"

// point is a position in raft's log. Term is raft's term, not that of an LSN.
type point struct{ Term, Index uint64 }

func (p point) compare(q point) int {
	return cmp.Or(cmp.Compare(p.Term, q.Term), cmp.Compare(p.Index, q.Index))
}

// String returns term-index, the form in names.
func (p point) String() string { return fmt.Sprintf("%d-%d", p.Term, p.Index) }

// upload names one attempt to write a snapshot to the bucket.
type upload struct {
	cluster string
	node    string
	point
	at int64  // start of the attempt, ms of the node's clock
	id string // random: no two attempts share a name
}

// prefix returns the prefix of the blob and of all its objects.
func (u upload) prefix() string {
	return fmt.Sprintf("%s%s/%s/%s-%d~%s", root, u.cluster, u.node, u.point, u.at, u.id)
}

// manifest returns the key of the object that completes the upload. It is written last.
func (u upload) manifest() string { return blob.ManifestKey(u.prefix()) }

// compare orders uploads by the position of the snapshot, then by age.
func (u upload) compare(v upload) int {
	return cmp.Or(u.point.compare(v.point), cmp.Compare(u.at, v.at), strings.Compare(u.prefix(), v.prefix()))
}

// parseKey returns the upload of an object. It only accepts a key in exactly the form in
// which this package writes it.
func parseKey(key string) (u upload, ok bool) {
	parts := strings.Split(key, "/")
	if len(parts) != 5 || parts[0]+"/" != root || !blob.IsObject(parts[4]) {
		return upload{}, false
	}
	stem, id, ok := strings.Cut(parts[3], "~")
	if !ok {
		return upload{}, false
	}
	p, at, ok := parseStem(stem)
	u = upload{cluster: parts[1], node: parts[2], point: p, at: at, id: id}
	if !ok || u.cluster == "" || u.node == "" || u.id == "" {
		return upload{}, false
	}
	return u, true
}

// parseStem parses term-index-ms, which is also raft's id of a local snapshot.
func parseStem(stem string) (p point, at int64, ok bool) {
	parts := strings.Split(stem, "-")
	if len(parts) != 3 {
		return point{}, 0, false
	}
	var err [3]error
	p.Term, err[0] = strconv.ParseUint(parts[0], 10, 64)
	p.Index, err[1] = strconv.ParseUint(parts[1], 10, 64)
	at, err[2] = strconv.ParseInt(parts[2], 10, 64)
	if err != [3]error{} || at < 0 || fmt.Sprintf("%s-%d", p, at) != stem {
		return point{}, 0, false
	}
	return p, at, true
}

// found is an upload in a listing.
type found struct {
	upload
	complete bool     // it has a manifest
	parts    []string // keys of its other objects
}

// survey groups the keys of a cluster's snapshots by upload, newest first. It skips unknown
// keys and those of other clusters.
func survey(keys []string, cluster string) []found {
	by := make(map[upload]*found)
	for _, key := range keys {
		u, ok := parseKey(key)
		if !ok || u.cluster != cluster {
			continue
		}
		f := by[u]
		if f == nil {
			f = &found{upload: u}
			by[u] = f
		}
		if key == u.manifest() {
			f.complete = true
		} else {
			f.parts = append(f.parts, key)
		}
	}
	all := make([]found, 0, len(by))
	for _, f := range by {
		slices.Sort(f.parts)
		all = append(all, *f)
	}
	slices.SortFunc(all, func(a, b found) int { return b.compare(a.upload) })
	return all
}

// completed returns the uploads with a manifest, in the same order.
func completed(all []found) []found {
	return slices.DeleteFunc(slices.Clone(all), func(f found) bool { return !f.complete })
}
