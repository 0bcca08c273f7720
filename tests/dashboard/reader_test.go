package dashboard

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster"
)

// A browser with the token of a reader sees all pages and no buttons, and cannot act by other
// means.
func TestReader(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 10 s")
	}
	b := open(t)
	c := cluster.Start(t, cluster.Options{Nodes: 1, TLS: true})
	node := c.WaitLeader()
	made, err := c.Client.CreateToken(t.Context(), v1.NewToken{Role: "reader", Name: "eyes"})
	if err != nil {
		t.Fatal(err)
	}
	one := int32(1)
	if _, err := c.Client.Enqueue(t.Context(), client.NewJob{ID: "j", Type: "mail", MaxAttempts: &one}); err != nil {
		t.Fatal(err)
	}
	root := "https://" + node.HTTP + "/ui"
	b.size(1280, 900, "light")
	b.do(chromedp.Navigate(root))
	b.until("the page to sign in", `location.pathname === "/ui/login" && !!document.querySelector("input[name=token]")`)
	if text := b.eval(`document.body.innerText`); strings.Contains(text, "reconnecting") || strings.Contains(text, "Schedules") {
		t.Errorf("the page to sign in says %s", text)
	}
	for _, look := range []look{{"light", "light", 1280}, {"dark-narrow", "dark", 380}} {
		b.size(look.width, 900, look.scheme)
		b.checkLook("sign in "+look.name, look.width)
		b.shoot("login-" + look.name)
	}
	b.size(1280, 900, "light")
	b.do(chromedp.SendKeys("input[name=token]", made.Token), chromedp.Click(`form:has(input[name=token]) button`))
	b.until("the overview", `location.pathname === "/ui" && document.querySelector("h1").textContent === "Overview"`)
	for _, path := range []string{"", "/jobs", "/jobs?status=unclaimed&type=mail", "/jobs/j", "/dead", "/queues", "/queues/mail", "/schedules", "/workers", "/batches", "/cluster", "/past"} {
		b.do(chromedp.Navigate(root+path), chromedp.WaitVisible("h1"))
		if found := b.eval(`[...document.querySelectorAll("main form[method=post], main a[href*='/bulk'], main a[href$='/purge']")].map((el) => el.outerHTML).join(" ")`); found != "" {
			t.Errorf("%s has actions for a reader: %s", path, found)
		}
		b.shoot("reader" + strings.NewReplacer("/", "-", "?", "-").Replace(path))
	}
	if status := b.eval(`(() => { const x = new XMLHttpRequest(); x.open("POST", "/ui/jobs/j/cancel", false); x.setRequestHeader("Content-Type", "application/x-www-form-urlencoded"); x.send(""); return x.status; })()`); status != "403" {
		t.Errorf("a reader cancels a job: %s", status)
	}
	if j, err := c.Client.Job(t.Context(), "j"); err != nil || j.Status != v1.StatusUnclaimed {
		t.Errorf("the job is %s, %v", j.Status, err)
	}
	b.check("reader")
}
