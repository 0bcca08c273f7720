package leader

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/cluster/flush"
	"osqueue/internal/sleep"
	"osqueue/storage"
	"osqueue/storage/document"
)

// A cluster that waits for the document of another one writes an object of its own,
// standby/<cluster>, every Config.StandbyInterval. The active leader looks for these objects as
// often, and names the clusters in the document. Both sides count with what the document says
// (election.Silence.Of and Term.rival): a cluster that it names takes over after the timeout, any
// other one after the outage, and the leader refuses writes before that. So it does not matter
// whether an announcement is lost or late, or which timeout the other cluster is configured with.

// standbyPrefix begins the keys of the announcements.
const standbyPrefix = "standby/"

// The values of Config.RivalPolicy: whether a leader lets a standby take over after the broker
// timeout.
const (
	RivalRefuse   = "refuse"   // name standbys, and refuse writes after the broker timeout; the default
	RivalContinue = "continue" // name no standby, and answer until MaxFlushLag is over
)

// standbyKept is the number of intervals without a new announcement after which a standby
// no longer counts.
const standbyKept = 3

// standbyMost bounds the announcements that a leader reads.
const standbyMost = 16

// announce writes the announcement of this cluster, if one is due. It takes at most an
// eighth of the broker timeout: a longer pause between two reads of the document would
// restart the measurement of its silence (election.Watch).
func (l *Leader) announce(ctx context.Context) {
	cluster := l.do.ClusterID()
	if cluster == "" || !l.announced.IsZero() && time.Since(l.announced) < l.cfg.StandbyInterval {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.BrokerTimeout/8)
	defer cancel()
	data, err := json.Marshal(Standby{Cluster: cluster, Node: l.cfg.Name, Address: l.cfg.HTTPAdvertise, At: l.cfg.Clock().UnixMilli()})
	if err != nil {
		return // cannot happen: the fields are text and numbers
	}
	l.announced = time.Now()
	key := standbyPrefix + cluster
	var w storage.Write
	switch old, err := l.cfg.Bucket.Get(ctx, key); {
	case errors.Is(err, storage.ErrNotFound):
		w = l.cfg.Bucket.PutIfAbsent(ctx, key, data)
	case err != nil:
		w = storage.Write{Outcome: storage.Unknown, Err: err}
	default:
		w = l.cfg.Bucket.PutIfMatch(ctx, key, data, old.Version)
	}
	if w.Outcome == storage.Unknown {
		l.log.Debug("cannot announce this standby", "error", w.Err)
	}
}

// standbys are the clusters that stand by, as a leader term knows them. Its goroutine, watch, is
// the only one that changes them; the other methods are safe for concurrent use.
type standbys struct {
	*base
	flusher *flush.Flusher
	log     hclog.Logger
	named   []string // named by the document when this leader acquired it
	known   map[string]*announced
	alive   atomic.Pointer[[]Standby] // known, in order; nil: not looked yet
}

// announced is the last announcement of a cluster.
type announced struct {
	Standby
	version storage.Version
	changed time.Time // when this leader read that version first
}

// watch keeps the standbys up to date until ctx ends.
func (s *standbys) watch(ctx context.Context) {
	s.known = make(map[string]*announced)
	for _, id := range s.named {
		s.known[id] = &announced{Standby: Standby{Cluster: id}, changed: time.Now()}
	}
	for {
		if err := s.look(ctx); err != nil {
			s.log.Debug("cannot read the announcements of standbys", "error", err)
		}
		s.forget(ctx)
		s.note()
		if !sleep.For(ctx, s.cfg.StandbyInterval) {
			return
		}
	}
}

// look reads the announcements in the bucket.
func (s *standbys) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	var keys []string
	err := s.cfg.Bucket.List(ctx, standbyPrefix, func(i storage.Info) bool {
		if i.Key != standbyPrefix+s.do.ClusterID() {
			keys = append(keys, i.Key)
		}
		return len(keys) < standbyMost
	})
	for _, key := range keys {
		o, gone := s.cfg.Bucket.Get(ctx, key)
		if gone != nil {
			continue
		}
		id := key[len(standbyPrefix):]
		if a := s.known[id]; a == nil || a.version != o.Version {
			a = &announced{version: o.Version, changed: time.Now()}
			_ = json.Unmarshal(o.Data, &a.Standby) // the key is enough; the rest is for people
			a.Cluster = id
			s.known[id] = a
		}
	}
	return err
}

// forget removes the standbys that have announced nothing new for standbyKept intervals,
// if this leader has renewed its own heartbeat since: an outage of the bucket ends no standby.
func (s *standbys) forget(ctx context.Context) {
	renewed, _ := s.flusher.Renewed()
	for id, a := range s.known {
		if renewed.After(a.changed.Add(standbyKept * s.cfg.StandbyInterval)) {
			delete(s.known, id)
			ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
			if err := s.cfg.Bucket.Delete(ctx, standbyPrefix+id); err != nil { // it is written again if the cluster is alive
				s.log.Debug("cannot delete the announcement of a standby", "cluster", id, "error", err)
			}
			cancel()
		}
	}
}

// note makes the known standbys those that the next document names. If one has come or
// gone, the leader writes the document at once.
func (s *standbys) note() {
	list := make([]Standby, 0, len(s.known))
	for _, id := range slices.Sorted(maps.Keys(s.known)) {
		list = append(list, s.known[id].Standby)
	}
	var before []Standby
	if old := s.alive.Swap(&list); old != nil {
		before = *old
	}
	is := func(one Standby) func(Standby) bool { return func(o Standby) bool { return o.Cluster == one.Cluster } }
	changed := len(list) != len(before)
	for _, one := range list {
		if !slices.ContainsFunc(before, is(one)) {
			changed = true
			s.log.Info("a standby cluster announces itself", "cluster", one.Cluster, "node", one.Node, "address", one.Address, "policy", s.cfg.RivalPolicy)
		}
	}
	for _, one := range before {
		if !slices.ContainsFunc(list, is(one)) {
			s.log.Info("the standby cluster does not announce itself any more", "cluster", one.Cluster, "node", one.Node, "address", one.Address)
		}
	}
	if changed {
		s.flusher.Rewrite()
	}
}

// announcement returns the announcement to other clusters in the next document.
func (s *standbys) announcement() document.Fence {
	named := s.named
	if list := s.alive.Load(); list != nil {
		named = nil
		for _, one := range *list {
			named = append(named, one.Cluster)
		}
	}
	return s.fenceOf(named)
}

// text returns the standby clusters for people; "" if none is known.
func (s *standbys) text() string {
	var names []string
	if list := s.alive.Load(); list != nil {
		for _, one := range *list {
			names = append(names, one.String())
		}
	}
	return strings.Join(names, ", ")
}

// fenceOf returns the announcement to other clusters in a document of this node. named are the ids of the
// clusters that stand by.
func (b *base) fenceOf(named []string) document.Fence {
	f := document.Fence{
		Heartbeat: b.cfg.Flush.Heartbeat, Timeout: b.cfg.BrokerTimeout, Outage: b.cfg.MaxFlushLag, Members: b.do.Members(),
	}
	if b.cfg.RivalPolicy != RivalContinue {
		f.Standbys = named
	}
	return f
}

// withdraw removes the announcement of this cluster, which has acquired the document.
func (l *Leader) withdraw(ctx context.Context) {
	if l.announced.IsZero() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.BrokerTimeout/8)
	defer cancel()
	if err := l.cfg.Bucket.Delete(ctx, standbyPrefix+l.do.ClusterID()); err != nil {
		l.log.Debug("cannot withdraw the announcement of this cluster", "error", err)
		return
	}
	l.announced = time.Time{}
}
