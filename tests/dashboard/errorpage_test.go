package dashboard

import (
	"testing"

	"github.com/chromedp/chromedp"

	"osqueue/tests/cluster"
)

// The script loads the page of a job that does not exist again when the job exists, although the
// leader died while the error page was open. The answer itself has no header Refresh.
func TestErrorPageEnds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 15 s")
	}
	b := open(t)
	c := cluster.Start(t, cluster.Options{})
	leader := c.WaitLeader()
	node := c.Follower()
	b.size(1280, 900, "light")
	b.do(chromedp.Navigate("http://"+node.HTTP+"/ui/jobs/soon-1?notice=done"), chromedp.WaitVisible("#problem"))
	if text := b.eval(`document.body.innerText`); text == "" || b.eval(`performance.getEntriesByType("navigation")[0].responseStatus`) != "404" {
		t.Fatalf("the page says %s", text)
	}
	b.do(chromedp.Evaluate(`window.opened = true`, nil))
	leader.Kill()
	next := c.WaitOtherLeader(leader)
	if again := b.eval(`window.opened === true && !!document.querySelector("#problem")`); again != "true" {
		t.Errorf("the error page went away while the job did not exist; the page says %s", b.eval("document.body.innerText"))
	}
	call(t, next, "POST", "/v1/jobs", object{"id": "soon-1", "type": "mail"})
	b.until("the page of the job", `!document.querySelector("#problem") && document.querySelector("h1").textContent.includes("soon-1")`)
	if again := b.eval(`window.opened === undefined && !location.search`); again != "true" {
		t.Errorf("the page was loaded again: %s, at %s", again, b.eval("location.href"))
	}
	b.check("an error page")
}
