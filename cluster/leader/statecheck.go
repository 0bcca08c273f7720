package leader

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/sleep"
)

const (
	// stateCheckLook is how often the leader asks for checksums that are not ready yet.
	stateCheckLook = time.Second
	// stateCheckPatience bounds how long the leader waits for nodes that do not answer.
	stateCheckPatience = 30 * time.Second
)

// checkStates compares the states of the nodes every Config.StateCheck, until ctx ends.
func (t *Term) checkStates(ctx context.Context) {
	interval := t.cfg.StateCheck
	if interval <= 0 {
		return
	}
	for {
		if t.do.TakeForked() { // one of them may have written the checkpoint, as leader
			t.builder.Renew()
			t.flusher.Rewrite()
		}
		if !sleep.For(ctx, max(t.do.SumsDue(interval), min(interval, stateCheckLook))) {
			return
		}
		if err := t.checkState(ctx); err != nil && ctx.Err() == nil {
			t.log.Warn("cannot compare the states of the nodes; trying again", "error", err)
		}
	}
}

// checkState makes one comparison: it proposes a CheckState, collects the checksums of
// the state after it, and proposes the result.
func (t *Term) checkState(ctx context.Context) error {
	voters := slices.DeleteFunc(slices.Clone(t.do.Servers()), func(s raft.Server) bool { return s.Suffrage != raft.Voter })
	c, err := t.proposals.Do(ctx, own(proposal{{Op: &fsmpb.Mutation_CheckState{CheckState: &fsmpb.CheckState{}}}}))
	if err != nil {
		return err
	}
	v := t.collectSums(ctx, c.lsn, voters).verdict()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case v.agreed == nil && v.finding == "":
		return fmt.Errorf("too few nodes reported their state after log entry %s", c.lsn)
	case v.agreed == nil:
		t.do.SumsFinding(v.finding)
		t.log.Error("the nodes have different states, and no state has a majority: find the node whose state is "+
			"wrong, delete its data directory and start it again", "lsn", c.lsn, "checksums", v.finding)
		return nil
	case len(v.diverged) > 0:
		t.log.Error("the state of a node differs from that of the majority; the node stops", "nodes", v.diverged, "lsn", c.lsn, "checksums", v.finding)
	}
	_, err = t.proposals.Do(ctx, own(proposal{{Op: &fsmpb.Mutation_StateChecked{StateChecked: &fsmpb.StateChecked{
		Term: c.lsn.Term, Index: c.lsn.Index, Sum: v.agreed, Diverged: v.diverged,
	}}}}))
	return err
}

// collected has the checksums of one state by server, in hexadecimal.
type collected struct {
	servers []raft.Server
	sums    map[raft.ServerID]string
}

// collectSums asks the servers of the configuration until those among voters have
// answered, or for stateCheckPatience. It does not wait for another server: one that
// joins may get its state by a snapshot of a later entry, and then never has the checksum.
func (t *Term) collectSums(ctx context.Context, at fsm.LSN, voters []raft.Server) collected {
	ctx, cancel := context.WithTimeout(ctx, stateCheckPatience)
	defer cancel()
	c := collected{sums: make(map[raft.ServerID]string)}
	wait := stateCheckLook / 20 // the checksum of a small state is ready at once
	for {
		c.servers = t.do.Servers()
		t.askForSums(ctx, at, &c)
		if !c.lacks(voters) || !sleep.For(ctx, wait) {
			return c
		}
		wait = min(2*wait, stateCheckLook)
	}
}

// lacks reports whether one of voters has not answered and is still in the configuration.
func (c collected) lacks(voters []raft.Server) bool {
	return slices.ContainsFunc(voters, func(v raft.Server) bool {
		return c.sums[v.ID] == "" && slices.ContainsFunc(c.servers, func(s raft.Server) bool { return s.ID == v.ID })
	})
}

// askForSums asks the servers that have not answered yet, in parallel.
func (t *Term) askForSums(ctx context.Context, at fsm.LSN, c *collected) {
	type answer struct {
		id  raft.ServerID
		sum string
	}
	asked, answers := 0, make(chan answer)
	for _, s := range c.servers {
		if c.sums[s.ID] != "" {
			continue
		}
		asked++
		go func() {
			a := answer{id: s.ID}
			if lsn, sum := t.do.StateOf(ctx, s.ID); lsn == at.String() {
				a.sum = sum
			}
			answers <- a
		}()
	}
	for range asked {
		if a := <-answers; a.sum != "" {
			c.sums[a.id] = a.sum
		}
	}
}

// verdict is the result of comparing the checksums of the servers.
type verdict struct {
	agreed   []byte   // checksum of a majority of the voters; nil: there is no majority
	diverged []string // ids of the servers with another checksum
	finding  string   // servers by checksum; "": all that answered have the same one
}

func (c collected) verdict() (v verdict) {
	voters, votes := 0, make(map[string]int)
	by := make(map[string][]string)
	for _, s := range c.servers {
		sum := c.sums[s.ID]
		if sum != "" {
			by[sum] = append(by[sum], string(s.ID))
		}
		if s.Suffrage == raft.Voter {
			voters++
			votes[sum]++
		}
	}
	for sum, ids := range by {
		if raw, err := hex.DecodeString(sum); err == nil && votes[sum] > voters/2 {
			v.agreed = raw
			continue
		}
		v.diverged = append(v.diverged, ids...)
	}
	slices.Sort(v.diverged)
	if len(by) > 1 {
		v.finding = describeSums(by)
	}
	if v.agreed == nil {
		v.diverged = nil
	}
	return v
}

func describeSums(by map[string][]string) string {
	var parts []string
	for sum, ids := range by {
		slices.Sort(ids)
		parts = append(parts, fmt.Sprintf("%s: %.16s", strings.Join(ids, ", "), sum))
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}
