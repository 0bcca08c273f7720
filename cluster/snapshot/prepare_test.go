package snapshot

import (
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// span is a run of log entries of one term.
type span struct{ term, from, to uint64 }

func logOf(t *testing.T, spans ...span) raft.LogStore {
	t.Helper()
	logs := raft.NewInmemStore()
	for _, s := range spans {
		for i := s.from; i <= s.to; i++ {
			if err := logs.StoreLog(&raft.Log{Index: i, Term: s.term, Type: raft.LogNoop}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return logs
}

func TestContinues(t *testing.T) {
	for _, c := range []struct {
		name       string
		log        []span
		from, lost point
		want       string // part of the error; "" for success
	}{
		{"log joins", []span{{1, 6, 20}}, point{1, 5}, point{1, 10}, ""},
		{"log ends at the lost one", []span{{1, 6, 10}}, point{1, 5}, point{1, 10}, ""},
		{"log ends before", []span{{1, 6, 9}}, point{1, 5}, point{1, 10}, "does not reach 1-10"},
		{"log empty", nil, point{1, 5}, point{1, 10}, "does not reach 1-10"},
		{"log cut off", []span{{1, 7, 20}}, point{1, 5}, point{1, 10}, "lacks entry 6"},
		{"hole in the log", []span{{1, 6, 7}, {1, 10, 12}}, point{1, 5}, point{1, 10}, "lacks entry 8"},
		{"log was going to be overwritten", []span{{1, 6, 20}}, point{1, 5}, point{2, 10}, "does not reach 2-10"},
	} {
		err := continues(logOf(t, c.log...), c.from, c.lost)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
