package dashboard

import (
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"osqueue/tests/cluster"
)

// An action is pressed in the browser, and the API shows its effect.
type action struct {
	name string
	page string // below /ui
	open string // selector of what asks first, a summary or a link; "": nothing asks
	fill map[string]string
	form string // end of the path of the form
	path string // of the API, whose answer has the effect
	want string // in the answer; with "!" before it: not in the answer
}

// actions are all actions of the dashboard, in an order in which each is possible. Actions
// of lists are not repeated.
func actions() []action {
	worker, job := "/workers/"+url.PathEscape("w"+evil), "/v1/jobs/"
	return []action{
		{name: "cancel a job", page: "/jobs/late-1", form: "/late-1/cancel", path: job + "late-1", want: `"status":"cancelled"`},
		{name: "retry a job", page: "/jobs/late-1", form: "/late-1/retry", path: job + "late-1", want: `"status":"unclaimed"`},
		{name: "delete a job", page: "/jobs/late-1", open: ".confirm summary", form: "/late-1/delete", path: "/v1/jobs?status=all&limit=1000", want: `!"id":"late-1"`},
		{name: "clone a job", page: "/jobs/wait-1", form: "/wait-1/clone", path: "/v1/queues/mail", want: `"unclaimed":`},
		{name: "retry a group of dead jobs", page: "/dead?type=flaky", form: "dead/retry", path: "/v1/queues/flaky", want: `"unclaimed":3`},
		{name: "delete a group of dead jobs", page: "/dead?type=broken", open: ".confirm summary", form: "dead/delete", path: "/v1/queues/broken", want: `"dead":0`},
		{name: "cancel all matches", page: "/jobs?status=unclaimed&type=many", open: `a[href*="action=cancel"]`, form: "bulk", path: "/v1/queues/many", want: `"cancelled":7`},
		{name: "retry all matches", page: "/jobs?status=cancelled&type=many", open: `a[href*="action=retry"]`, form: "bulk", path: "/v1/queues/many", want: `"unclaimed":7`},
		{name: "delete all matches", page: "/jobs?status=unclaimed&type=many", open: `a[href*="action=delete"]`, form: "bulk", path: "/v1/queues/many", want: `"unclaimed":0`},
		{name: "limit a queue", page: "/queues/mail", form: "/limits", fill: map[string]string{"maxRunning": "3", "ratePerSecond": "2.5"}, path: "/v1/queues/mail", want: `"maxRunning":3`},
		{name: "remove the limits of a queue", page: "/queues/mail", form: "/limits", fill: map[string]string{"maxRunning": "", "ratePerSecond": ""}, path: "/v1/queues/mail", want: `!"maxRunning"`},
		{name: "pause a queue", page: "/queues/mail", form: "/pause", fill: map[string]string{"reason": "down"}, path: "/v1/queues/mail", want: `"reason":"down"`},
		{name: "resume a queue", page: "/queues/mail", form: "/resume", path: "/v1/queues/mail", want: `!"paused"`},
		{name: "purge a queue", page: "/queues/resize-image", open: `a[href$="/purge"]`, form: "/purge", fill: map[string]string{"confirm": "resize-image"}, path: "/v1/queues/resize-image", want: `"cancelled":0`},
		{name: "trigger a schedule", page: "/schedules", form: "/nightly/trigger", path: "/v1/crons/nightly", want: `"lastJobId"`},
		{name: "pause a schedule", page: "/schedules", form: "/nightly/pause", path: "/v1/crons/nightly", want: `"paused":true`},
		{name: "resume a schedule", page: "/schedules", form: "/nightly/resume", path: "/v1/crons/nightly", want: `!"paused":true`},
		{name: "send a signal", page: "/jobs/sign-1", form: "/sign-1/signal", fill: map[string]string{"value": `{"by":"ann"}`}, path: job + "sign-1", want: `"name":"approved","value":{"by":"ann"}`},
		{name: "retry from a job", page: "/batches/flow", open: ".confirm summary", form: "flow/retry", path: "/v1/batches/flow", want: `"completed":0`},
		{name: "cancel a batch", page: "/batches/flow", open: ".confirm summary", form: "flow/cancel", path: "/v1/batches/flow", want: `"cancelled":4`},
		{name: "release a limit", page: "/limits", form: "/hold", path: "/v1/limits", want: `!"heldUntil"`},
		{name: "hold a limit", page: "/limits", open: ".confirm summary", form: "/hold", path: "/v1/limits", want: `"heldUntil"`},
		{name: "quiet a worker", page: "/workers", form: "/quiet", path: "/v1" + worker, want: `"quietSince"`},
		{name: "unquiet a worker", page: worker, form: "/unquiet", path: "/v1" + worker, want: `!"quietSince"`},
		{name: "remove a worker", page: "/workers", open: ".confirm summary", form: "/remove", path: "/v1/workers", want: `"workers":[]`},
		{name: "test a hook", page: "/hooks/ops", form: "/ops/test", path: "/v1/hooks/ops/deliveries", want: "hook.test"},
		{name: "delete a hook", page: "/hooks/ops", open: ".confirm summary", form: "/ops/delete", path: "/v1/hooks", want: `"hooks":[]`},
	}
}

// seedActions adds what the actions need.
func seedActions(t *testing.T, n *cluster.Node) {
	t.Helper()
	var jobs []object
	for range 7 {
		jobs = append(jobs, object{"type": "many"})
	}
	call(t, n, "POST", "/v1/jobs/batch", object{"jobs": jobs})
	for _, kind := range []string{"flaky", "flaky", "flaky", "broken"} {
		made := call(t, n, "POST", "/v1/jobs", object{"type": kind, "maxAttempts": 1})
		call(t, n, "POST", "/v1/jobs/claim", object{"workerId": "x", "types": []string{kind}})
		call(t, n, "POST", "/v1/jobs/"+made["jobId"].(string)+"/fail", object{"workerId": "x", "error": "it is " + kind})
	}
}

// Each action of the dashboard, pressed on a node that follows, has its effect.
func TestActions(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 15 s")
	}
	b := open(t)
	c := cluster.Start(t, cluster.Options{})
	c.WaitLeader()
	n := c.Follower()
	seed(t, n)
	seedActions(t, n)
	root := "http://" + n.HTTP + "/ui"
	b.size(1280, 900, "light")
	for _, a := range actions() {
		form := `form[method=post][action$="` + a.form + `"]`
		if strings.HasPrefix(a.name, "retry a group") {
			form += `:has(input[value="it is flaky"])`
		}
		b.do(chromedp.Navigate(root+a.page), chromedp.WaitVisible("#theme"))
		if a.open != "" {
			if a.open == ".confirm summary" {
				a.open = `.confirm:has(` + form + `) summary`
			}
			b.do(chromedp.Click(a.open), chromedp.WaitVisible(form+" button"))
		}
		if strings.HasSuffix(a.name, "all matches") && !strings.Contains(b.eval(`document.querySelector("h1").textContent`), "7 ") {
			b.t.Errorf("%s: the question has no count: %s", a.name, b.eval(`document.querySelector("h1").textContent`))
		}
		for field, value := range a.fill {
			b.eval("(document.querySelector(`" + form + ` input[name="` + field + `"]` + "`).value = `" + value + "`)")
		}
		b.do(chromedp.Click(form + " button"))
		b.until(a.name, `!!document.querySelector(".notice") && document.readyState === "complete"`)
		b.until("the effect of: "+a.name, a.effect())
		b.check(a.name)
		b.shoot("done-" + strings.ReplaceAll(a.name, " ", "-"))
	}
	b.passOn(root)
}

// passOn makes a link for another person, who sends the signal with it.
func (b *browser) passOn(root string) {
	b.t.Helper()
	b.do(chromedp.Navigate(root+"/jobs/sign-1"), chromedp.WaitVisible("#theme"),
		chromedp.SetValue(`form[action$="/signal"] input[name=name]`, "go"), chromedp.Click("button[formaction]"))
	b.until("the link", `!!document.querySelector("#link") && document.readyState === "complete"`)
	b.shoot("link")
	b.do(chromedp.Navigate(b.eval(`document.querySelector("#link").textContent`)))
	b.until("the page of the link", `!!document.querySelector("#send")`)
	b.do(chromedp.Click("#send"))
	signal := action{path: "/v1/jobs/sign-1", want: `"name":"go"`}
	b.until("the signal of the link", signal.effect())
	b.check("link")
}

// effect is a script that reports whether the API shows the effect of an action.
func (a *action) effect() string {
	want, not := strings.CutPrefix(a.want, "!")
	script := `(() => { const x = new XMLHttpRequest(); x.open("GET", "` + a.path + `", false); x.send(""); return x.status === 200 && `
	if not {
		script += "!"
	}
	return script + `x.responseText.includes(` + "`" + want + "`); })()"
}
