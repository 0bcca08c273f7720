package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/cmd/osqueue/view"
	"osqueue/storage/cost"
)

func newStatusCommand(g *view.Globals) *cobra.Command {
	check := false
	cmd := &cobra.Command{
		Use:   "status [SERVER]",
		Short: "Show the nodes of the cluster",
		Long: `Asks every node for its status and shows the answers as a table: LSN is the newest
log entry of the node, LAG the age of the leader's entries that are not in the bucket.
PENDING jobs wait for their time or for a worker. With -o wide there is more: FLUSHED is the
newest entry that the node knows to be in the bucket, BLOCKED jobs wait for other jobs. The
second table has the members of the cluster as the leader sees them: CONTACT is the time since
the member last answered, none if it has not answered this leader, LOG its newest log entry,
CLOCK the lead of its wall clock over the leader's. VOTE is joining until the member has the
log, and no if it stays without a vote. -o wide adds its release and the highest feature
level. The lines below show the state and the cost of the bucket. Members and bucket need a
token that may read. The exit status is 1 if there is no leader.

With --check the command shows nothing: the exit status is 0 if SERVER (without it:
each node of --servers) is ready to serve, else 1. This is for health checks.`,
		Example: `  osqueue status
  osqueue status --check 127.0.0.1:8080`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				g.Servers = args
			}
			return g.WithClient(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				if check {
					return checkReady(ctx, c)
				}
				return showNodes(g, c.StatusAll(ctx))
			})
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "only check whether the nodes are ready")
	return cmd
}

// checkReady returns an error for every server that is not ready.
func checkReady(ctx context.Context, c *client.Client) error {
	var errs []error
	for _, server := range c.Servers() {
		if err := c.Ready(ctx, server); err != nil {
			errs = append(errs, fmt.Errorf("%s is not ready: %s", hostOf(server), view.Cause(err)))
		}
	}
	return errors.Join(errs...)
}

func showNodes(g *view.Globals, nodes []client.NodeStatus) error {
	var err error
	if g.JSON {
		err = writeNodes(g, nodes)
	} else {
		err = tableOfNodes(g, nodes)
	}
	if err != nil {
		return err
	}
	return leaderless(nodes)
}

// leaderless returns an error that says why no node leads, or nil if one does. A leader that
// was not asked counts if another node knows it.
func leaderless(nodes []client.NodeStatus) error {
	asked := make(map[string]error) // the error of each server, nil if it answered
	for _, n := range nodes {
		asked[hostOf(n.Server)] = n.Err
	}
	answers, elsewhere, barred, silent := 0, false, "", ""
	for _, n := range nodes {
		if n.Err != nil {
			continue
		}
		if n.Status.State == v1.StateLeader {
			return nil
		}
		answers++
		switch s := n.Status.Fence.State; s {
		case cluster.FenceUnreachable:
			barred = fmt.Sprintf("no active leader: %s is raft's leader and cannot use the bucket; it hands leadership over when another node "+
				"can use it: repair the bucket or its way to it, or stop this node if the others are well", hostOf(n.Server))
		case cluster.FenceStandby, cluster.FenceRefused, cluster.FenceFenced:
			barred = fmt.Sprintf("no active leader: %s is raft's leader, but its cluster does not own the bucket (%s)", hostOf(n.Server), s)
		}
		if leader := n.Status.LeaderAddress; leader != nil {
			switch err, known := asked[*leader]; {
			case !known:
				elsewhere = true
			case err != nil:
				silent = fmt.Sprintf("no leader answers: %s follows %s at %s; if the process or its disk hangs, stop it: the others then elect a leader",
					hostOf(n.Server), leaderName(n.Status), *leader)
			}
		}
	}
	switch {
	case answers == 0 && slices.ContainsFunc(nodes, answersOthers):
		return errors.New("no node says how it is: is it another cluster? See osqueue context ls, or give --servers, --ca and --token-file")
	case answers == 0:
		return errors.New("no node answers; " + view.StartHint + "; osqueue inspect BUCKET-URL shows the state in the bucket")
	case elsewhere:
		return nil
	case barred != "":
		return errors.New(barred)
	case silent != "":
		return errors.New(silent)
	case 2*answers > len(nodes):
		return fmt.Errorf("no leader; %s of %d asked, which is a majority: an election takes a few seconds; if it lasts longer, read the logs of the nodes",
			answersText(answers), len(nodes))
	}
	return fmt.Errorf("no leader; %s of %d asked; writes wait until a majority of the cluster runs", answersText(answers), len(nodes))
}

// answersOthers reports whether a server answers, but not to this client: it shows a certificate of another
// CA, or refuses the request.
func answersOthers(n client.NodeStatus) bool {
	dial := (*net.OpError)(nil)
	return n.Err != nil && !errors.Is(n.Err, context.DeadlineExceeded) && !errors.As(n.Err, &dial)
}

func answersText(n int) string {
	if n == 1 {
		return "1 node answers"
	}
	return fmt.Sprintf("%d nodes answer", n)
}

func writeNodes(g *view.Globals, nodes []client.NodeStatus) error {
	type node struct {
		Server string     `json:"server"`
		Error  string     `json:"error,omitzero"`
		Status *v1.Status `json:"status,omitzero"`
	}
	out := struct {
		Nodes []node `json:"nodes"`
	}{}
	for _, n := range nodes {
		row := node{Server: view.ServerName(n.Server)}
		if n.Err != nil {
			row.Error = n.Err.Error()
		} else {
			row.Status = &n.Status
		}
		out.Nodes = append(out.Nodes, row)
	}
	return g.WriteJSON(out)
}

func tableOfNodes(g *view.Globals, nodes []client.NodeStatus) error {
	var rows [][]string
	var notes []string
	for _, n := range nodes {
		rows = append(rows, nodeRow(n))
		notes = append(notes, nodeNotes(n)...)
	}
	notes = append(notes, faultNotes(nodes)...)
	if slices.ContainsFunc(nodes, withheld) {
		notes = append(notes, "members, bucket and the numbers of jobs are shown with a token that may read: give one with --token-file or OSQUEUE_TOKEN")
	}
	if err := g.TableOf(nodeColumns, rows); err != nil {
		return err
	}
	if rows := memberRows(nodes); len(rows) > 0 {
		if err := errors.Join(g.Printf("\n"), g.TableOf(memberColumns, rows)); err != nil {
			return err
		}
	}
	if rows := bucketRows(nodes, time.Now()); len(rows) > 0 {
		if err := errors.Join(g.Printf("\n"), g.Table(rows)); err != nil {
			return err
		}
		if len(notes) > 0 {
			notes[0] = "\n" + notes[0]
		}
	}
	for _, note := range notes {
		if err := g.Printf("%s\n", note); err != nil {
			return err
		}
	}
	return nil
}

// withheld reports whether a node has left the members out of its answer, because the client has no right to read.
// The node itself is one of them otherwise.
func withheld(n client.NodeStatus) bool { return n.Err == nil && len(n.Status.Peers) == 0 }

// nodeColumns is the header above the rows of nodeRow.
var nodeColumns = view.Columns("SERVER", "NODE", "STATE", "+TERM", "+LEADER", "LSN", "+FLUSHED", "LAG", "FENCE", "PENDING", "+BLOCKED", "+RUNNING", "+COMPLETED", "DEAD", "+WORKERS")

func nodeRow(n client.NodeStatus) []string {
	if n.Err != nil {
		row := []string{hostOf(n.Server), "-", "unreachable"}
		for range 12 {
			row = append(row, "-")
		}
		return row
	}
	s := n.Status
	flushed, behind := "-", "-"
	if s.FlushedLSN != view.NoLSN {
		flushed = view.OrDash(s.FlushedLSN) // followers have heard of it
	}
	if s.State == v1.StateLeader {
		behind = lag(s)
	}
	return []string{
		hostOf(n.Server), s.NodeID, s.State, strconv.FormatUint(s.Term, 10), leaderName(s), view.OrDash(s.LSN), flushed,
		behind, view.OrDash(s.Fence.State), strconv.Itoa(s.Tasks.Pending), strconv.Itoa(s.Tasks.Blocked), strconv.Itoa(s.Tasks.Processing),
		strconv.FormatUint(s.Tasks.CompletedTotal, 10), strconv.Itoa(s.Tasks.Dead), strconv.Itoa(s.Workers),
	}
}

// nodeNotes returns remarks about a node that do not fit into a table.
func nodeNotes(n client.NodeStatus) (notes []string) {
	host := hostOf(n.Server)
	if n.Err != nil {
		return []string{fmt.Sprintf("%s: %s", host, view.Cause(n.Err))}
	}
	if r := n.Status.Fence.Reason; r != "" {
		notes = append(notes, fmt.Sprintf("%s: %s", host, r))
	}
	for _, note := range bucketNotes(n.Status) {
		notes = append(notes, host+": "+note)
	}
	return notes
}

func leaderName(s v1.Status) string {
	if s.Leader == nil {
		return "-"
	}
	return view.OrDash(*s.Leader)
}

// lag is how far the bucket is behind.
func lag(s v1.Status) string {
	if s.LagEntries == 0 {
		return "0"
	}
	return fmt.Sprintf("%d/%dms", s.LagEntries, s.LagMs)
}

// hostOf is a server as one would give it to --servers.
func hostOf(server string) string {
	server = view.ServerName(server)
	u, err := url.Parse(server)
	if err != nil || u.Host == "" {
		return server
	}
	return strings.TrimSuffix(u.Host+u.Path, "/")
}

// memberColumns is the header above memberRows.
var memberColumns = view.Columns("MEMBER", "+INSTANCE", "VOTE", "RAFT ADDRESS", "+HTTP ADDRESS", "CONTACT", "LOG", "CLOCK", "+VERSION", "+LEVEL")

// members returns the members of the cluster as the leader sees them, and whether there is one.
// Without a leader, it uses the first node that answers.
func members(nodes []client.NodeStatus) (list []v1.Peer, leads bool) {
	i := leaderIndex(nodes)
	leads = i >= 0
	if !leads {
		i = slices.IndexFunc(nodes, func(n client.NodeStatus) bool { return n.Err == nil })
	}
	if i < 0 {
		return nil, false
	}
	return nodes[i].Status.Peers, leads
}

// memberRows returns the rows of the members.
func memberRows(nodes []client.NodeStatus) [][]string {
	list, leads := members(nodes)
	var rows [][]string
	for _, p := range list {
		_, instance, _ := strings.Cut(p.ServerID, "~")
		vote := "joining"
		switch {
		case p.Voter:
			vote = "yes"
		case p.NonVoter:
			vote = "no"
		}
		rows = append(rows, []string{
			p.Name, view.OrDash(instance), vote, view.OrDash(p.RaftAddress), view.OrDash(p.HTTPAddress),
			contactText(p.LastContactMs, leads && !p.Leader), orDash(p.LogIndex, indexText), orDash(p.ClockOffsetMs, offsetText),
			view.OrDash(p.Version), levelText(p.KnownLevel),
		})
	}
	return rows
}

// leaderIndex is the place of the active leader's answer, -1 if there is none.
func leaderIndex(nodes []client.NodeStatus) int {
	return slices.IndexFunc(nodes, func(n client.NodeStatus) bool { return n.Err == nil && n.Status.State == v1.StateLeader })
}

// contactText is how long ago a member answered; asked says that the leader expects answers.
func contactText(ms *int64, asked bool) string {
	if ms == nil && asked {
		return "none"
	}
	return orDash(ms, msShort)
}

// orDash is the text of a value that may be missing.
func orDash[T any](v *T, text func(T) string) string {
	if v == nil {
		return "-"
	}
	return text(*v)
}

func indexText(index uint64) string { return strconv.FormatUint(index, 10) }

// offsetText is a difference of clocks with its sign.
func offsetText(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d < 0 {
		return d.String()
	}
	return "+" + d.String()
}

// bucketRows tell how the bucket is, by the word of the node that writes to it.
func bucketRows(nodes []client.NodeStatus, now time.Time) [][]string {
	i := leaderIndex(nodes)
	if i < 0 {
		return nil
	}
	s := nodes[i].Status
	return view.NonEmptyRows(
		[]string{"document", documentText(s.Document)},
		[]string{"archive", archiveText(s.Document)},
		[]string{"behind", behindText(s)},
		[]string{"flushes", flushesText(s)},
		[]string{"requests", requestsText(s.Bucket, now)},
		[]string{"cost", costText(s.Bucket, now)},
		[]string{"snapshots", snapshotsText(s.Snapshots, now)},
		[]string{"inbox", inboxText(s.Inbox)},
	)
}

// snapshotsText is about raft's snapshots, as the leader knows them.
func snapshotsText(s *v1.Snapshots, now time.Time) string {
	if s == nil || s.Local == nil {
		return ""
	}
	return fmt.Sprintf("raft entry %d-%d on the leader's disk, %s old", s.Local.Term, s.Local.Index, view.AgoText(s.Local.At, now))
}

func inboxText(b *v1.Inbox) string {
	if b == nil {
		return ""
	}
	rejected := fmt.Sprintf("%d rejected", b.Rejected)
	if b.Rejected > 0 {
		rejected += " (see inbox-rejected/ in the bucket)"
	}
	return fmt.Sprintf("%s taken, %d repeated, %s, %d waiting", view.Plural(b.Taken, "job"), b.Repeated, rejected, b.Waiting)
}

// faultNotes returns what the checks of doctor find in the answers of the nodes.
func faultNotes(nodes []client.NodeStatus) (notes []string) {
	s := &snapshot{}
	for _, n := range nodes {
		s.nodes = append(s.nodes, examined{NodeStatus: n})
	}
	for _, f := range s.findings(statusChecks) {
		notes = append(notes, f.At+": "+f.What)
	}
	if len(notes) > 0 {
		notes = append(notes, "osqueue doctor says what to do")
	}
	return notes
}

// bucketNotes returns what happened to the document.
func bucketNotes(s v1.Status) (notes []string) {
	if s.Standby != "" {
		notes = append(notes, "a standby cluster waits for the bucket: "+s.Standby)
	}
	if c := s.Carried; c != nil {
		text := fmt.Sprintf("the adopted document lacked writes that this cluster had acknowledged: %s carried over, %d ended with the same outcome",
			view.Plural(c.Jobs, "job"), c.Ended)
		if c.Kept > 0 || c.Records > 0 {
			text += fmt.Sprintf(", %s and %s only in the copy %s",
				view.Plural(c.Kept, "job"), view.Plural(c.Records, "other record"), c.Copy)
		}
		notes = append(notes, text)
	}
	if c := s.DocumentCopies; c != nil {
		notes = append(notes, fmt.Sprintf("another program changed queue.json, or a legacy one was adopted: copies %d, the newest %s", c.Count, c.Last))
	}
	return notes
}

func documentText(d *v1.Document) string {
	if d == nil {
		return ""
	}
	text := view.BytesText(int64(d.Bytes))
	if !d.View {
		text += ", without a list of the jobs"
	}
	return text
}

func archiveText(d *v1.Document) string {
	if d == nil || d.ArchiveLSN == view.NoLSN {
		return ""
	}
	checkpoint := d.CheckpointLSN
	if checkpoint == view.NoLSN {
		checkpoint = "the beginning"
	}
	return fmt.Sprintf("checkpoint at %s, %s of the log up to %s", checkpoint, view.BytesText(d.LogBytes), d.ArchiveLSN)
}

// behindText describes the acknowledged writes that are not in the bucket yet.
func behindText(s v1.Status) string {
	text := "nothing"
	if s.LagEntries > 0 {
		text = fmt.Sprintf("%s, %s, for %s", view.Plural(s.LagEntries, "entry"), view.BytesText(s.LagBytes), msShort(s.LagMs))
	}
	if s.MaxFlushLagMs > 0 {
		text += fmt.Sprintf(" (writes are refused from %s on)", view.MsText(s.MaxFlushLagMs))
	}
	return text
}

func flushesText(s v1.Status) string {
	if s.FlushIntervalMs == 0 {
		return ""
	}
	text := "at most one every " + msShort(s.FlushIntervalMs)
	if s.Ack != "" {
		text += "; ack level " + s.Ack
	}
	return text
}

func requestsText(b *v1.Bucket, now time.Time) string {
	if b == nil {
		return ""
	}
	var total uint64
	for _, n := range b.Requests {
		total += n
	}
	return fmt.Sprintf("%d in %s (%s written, %s read)",
		total, view.Short(now.Sub(time.UnixMilli(b.Since))), view.BytesText(int64(b.BytesWritten)), view.BytesText(int64(b.BytesRead)))
}

// projectable is how long a process must have run for its projection to be one: until
// then it divides by that time, and shows too little.
const projectable = cost.LeastSpan

func costText(b *v1.Bucket, now time.Time) string {
	if b == nil || b.CostUSD == 0 && b.ProjectedUSD == 0 && b.BudgetUSD == 0 {
		return ""
	}
	text := dollars(b.CostUSD) + " so far, "
	if now.Sub(time.UnixMilli(b.Since)) < projectable {
		text += "an estimate for a month needs " + view.SpanText(projectable)
	} else {
		text += dollars(b.ProjectedUSD) + " a month at the rate of the last hour"
	}
	if b.BudgetUSD > 0 {
		text += ", budget " + dollars(b.BudgetUSD) + " a month"
	}
	return text
}

// dollars is a sum with cents, or with as many decimals as it takes to be one.
func dollars(usd float64) string {
	text := strconv.FormatFloat(usd, 'f', 2, 64)
	if usd > 0 && usd < 0.01 {
		text = strings.TrimRight(strconv.FormatFloat(usd, 'f', 6, 64), "0")
	}
	return "$" + strings.TrimSuffix(text, ".")
}

func msShort(ms int64) string { return view.Short(time.Duration(ms) * time.Millisecond) }
