package leader

import (
	"errors"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

func TestDecideHandover(t *testing.T) {
	bad := errors.New("refused")
	voter := func(id string, behind uint64, err error) answer {
		return answer{Voter: Voter{ID: raft.ServerID(id), Behind: behind}, err: err}
	}
	base := situation{stalled: 2 * time.Second, patience: time.Second, voters: 2}
	asked := base
	asked.asked, asked.own = true, bad
	with := func(s situation, answers ...answer) situation {
		s.answers = answers
		return s
	}
	for name, c := range map[string]struct {
		s    situation
		want handoverAction
		to   raft.ServerID
	}{
		"the bucket works":             {situation{voters: 2, patience: time.Second}, stay, ""},
		"for a moment only":            {situation{stalled: time.Millisecond, voters: 2, patience: time.Second}, stay, ""},
		"no other voter answers":       {situation{stalled: time.Minute, patience: time.Second}, stay, ""},
		"between two rounds":           {situation{stalled: time.Minute, patience: time.Second, voters: 2, paused: true}, stay, ""},
		"for long enough":              {base, ask, ""},
		"nobody reaches it":            {with(asked, voter("b", 0, bad), voter("c", 0, bad)), stay, ""},
		"nobody answers":               {with(asked), stay, ""},
		"one reaches it":               {with(asked, voter("b", 0, bad), voter("c", 3, nil)), handOver, "c"},
		"the one with the longer log":  {with(asked, voter("b", 9, nil), voter("c", 3, nil)), handOver, "c"},
		"the first of two equal ones":  {with(asked, voter("b", 3, nil), voter("c", 3, nil)), handOver, "b"},
		"one reaches it and lags":      {with(asked, voter("b", handoverBehind+1, nil), voter("c", 0, bad)), stay, ""},
		"this node's own try succeeds": {with(situation{stalled: time.Minute, patience: time.Second, voters: 2, asked: true}, voter("b", 0, nil)), stay, ""},
		"it works again meanwhile":     {with(situation{patience: time.Second, voters: 2, asked: true, own: bad}, voter("b", 0, nil)), stay, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got, to := decideHandover(c.s); got != c.want || to != c.to {
				t.Errorf("%d to %q, want %d to %q", got, to, c.want, c.to)
			}
		})
	}
}
