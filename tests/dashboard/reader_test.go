package dashboard

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
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
	b.signIn(made.Token)
	b.until("the overview", `location.pathname === "/ui" && document.querySelector("h1").textContent === "Overview"`)
	for _, path := range []string{"", "/jobs", "/jobs?status=unclaimed&type=mail", "/jobs/j", "/dead", "/queues", "/queues/mail", "/schedules", "/workers", "/batches", "/limits", "/cluster", "/past"} {
		b.do(chromedp.Navigate(root+path), chromedp.WaitVisible("h1"))
		if found := b.eval(`[...document.querySelectorAll("main form[method=post], main a[href^='bulk'], main a[href$='/purge']")].map((el) => el.outerHTML).join(" ")`); found != "" {
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
	b.limited(c, root)
}

func (b *browser) signIn(token string) {
	b.t.Helper()
	b.do(chromedp.SendKeys("input[name=token]", token), chromedp.Click(`form:has(input[name=token]) button`))
}

// limited looks at what tokens see that are limited to some types, or to some groups, or cannot read,
// and signs in on the page that it wants to see.
func (b *browser) limited(c *cluster.Cluster, root string) {
	b.t.Helper()
	for _, as := range []struct {
		token v1.NewToken
		pages map[string]string // a script that is true, by path
	}{
		{v1.NewToken{Role: "operator", Types: []string{"mail"}}, map[string]string{
			"/queues/mail":                     `document.querySelector("#tiles b").textContent === "1" && !!document.querySelector("#chart")`,
			"/jobs":                            `!!document.querySelector(".filter select") && !!document.querySelector('.problem + p a[href="queues/mail"]')`,
			"/jobs?status=unclaimed&type=mail": `document.querySelectorAll("#jobs tbody tr").length === 1`,
			"/jobs/j":                          `document.querySelector(".status").textContent === "available"`,
			"":                                 `!!document.querySelector('main a[href="queues/mail"]')`,
			"/dead":                            `!!document.querySelector('main a[href="queues/mail"]')`,
		}},
		{v1.NewToken{Role: "reader", Groups: []string{"g"}}, map[string]string{
			"/queues/mail": `document.body.innerText.includes("with all of its groups is not in the scope")`,
		}},
		{v1.NewToken{Role: "worker"}, map[string]string{
			"/cluster": `!document.querySelector("#nodes") && document.querySelector(".empty").textContent.includes("read")`, "/jobs/j": `document.querySelector(".status").textContent === "available"`,
			"/queues/mail": `!!document.querySelector("#problem")`,
		}},
	} {
		made, err := c.Client.CreateToken(b.t.Context(), as.token)
		if err != nil {
			b.t.Fatal(err)
		}
		b.do(network.ClearBrowserCookies(), chromedp.Navigate(root+"/cluster?x=1"), chromedp.WaitVisible("input[name=token]"))
		b.signIn(made.Token)
		b.until("the page that was asked for", `location.pathname + location.search === "/ui/cluster?x=1" && document.readyState === "complete"`)
		for path, script := range as.pages {
			b.do(chromedp.Navigate(root+path), chromedp.WaitVisible("h1"))
			b.until(fmt.Sprintf("%+v: the page %s", as.token, path), script)
		}
	}
	b.check("limited")
}
