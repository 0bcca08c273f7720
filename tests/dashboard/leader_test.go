package dashboard

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"osqueue/tests/cluster"
)

// leaderLag is how long the page may name another leader than its node knows. The script asks
// the node every second; a busy machine adds to that.
const leaderLag = 5 * time.Second

// chip is a script that returns the text of the chip with the node and its leader.
const chip = `document.querySelector("#where .chip").textContent`

// The head of a page follows what its node knows about the leader: after the leader's death it says
// that there is none, or names the next one. The page of an earlier state does so, too. If the node
// itself dies, or freezes, no leader is named.
func TestLeaderOfThePage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 20 s")
	}
	b := open(t)
	c := cluster.Start(t, cluster.Options{})
	b.size(1280, 900, "light")
	for _, path := range []string{"", "/events", "/at/"} {
		old := c.WaitLeader()
		if path == "/at/" {
			path += fmt.Sprint(flushed(t, old)) + "/"
		}
		node := c.Follower()
		b.visit(c, node, path)
		b.until("the leader's name", chip+` === "`+node.Name+" · leader "+old.Name+`"`)
		old.Kill()
		b.follow("/ui"+path, node, func(known string) bool { return known != "no leader" && known != "leader "+old.Name })
		old.Start()
		c.WaitVoters()
	}
	b.surviveMajority(c)
	node := c.WaitLeader()
	b.visit(c, node, "")
	node.Pause()
	b.until("that the frozen node does not answer", chip+` === "`+node.Name+` · no answer" && document.querySelector("#live").textContent === "reconnecting"`)
	node.Continue()
	b.until("the leader again", chip+`.includes("leader") && document.querySelector("#live").textContent === "live"`)
	node.Kill()
	b.until("that the dead node does not answer", chip+` === "`+node.Name+` · no answer"`)
	b.check("the leader of the page")
}

// visit opens a page of a node, which may just have started.
func (b *browser) visit(c *cluster.Cluster, node *cluster.Node, path string) {
	b.t.Helper()
	page := "http://" + node.HTTP + "/ui" + path
	c.Eventually(cluster.LeaderTimeout, "the page "+page, func() error { return served(page) })
	b.do(chromedp.Navigate(page), chromedp.WaitVisible("#theme"))
}

// surviveMajority looks at a page while two of three nodes are dead.
func (b *browser) surviveMajority(c *cluster.Cluster) {
	b.t.Helper()
	node, leader := c.Follower(), c.WaitLeader()
	b.visit(c, node, "")
	b.until("the leader's name", chip+`.endsWith("leader `+leader.Name+`")`)
	for _, n := range c.Nodes {
		if n != node {
			n.Kill()
		}
	}
	b.follow("without majority", node, func(known string) bool { return known == "no leader" })
	for _, n := range c.Nodes {
		if n != node {
			n.Start()
		}
	}
	c.WaitVoters()
}

// follow compares the page with its node until both are done, and checks the longest time for
// which they differed.
func (b *browser) follow(what string, node *cluster.Node, done func(known string) bool) {
	b.t.Helper()
	var since time.Time // of the present difference
	var most time.Duration
	for end := time.Now().Add(cluster.LeaderTimeout); ; time.Sleep(50 * time.Millisecond) {
		s, err := node.Status()
		if err != nil {
			if time.Now().After(end) {
				b.t.Fatalf("%s: %v", what, err)
			}
			continue
		}
		known := "no leader"
		if s.Leader != nil && *s.Leader != "" {
			known = "leader " + *s.Leader
		}
		shown := b.eval(chip)
		same := strings.HasSuffix(shown, known)
		switch {
		case same && done(known):
			b.t.Logf("%s: the page named another leader than its node for at most %v", what, most.Round(10*time.Millisecond))
			if most > leaderLag {
				b.t.Errorf("%s: that is longer than %v", what, leaderLag)
			}
			return
		case same:
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		default:
			most = max(most, time.Since(since))
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s: the page says %q, and the node %q", what, shown, known)
		}
	}
}
