package dashboard

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"go.uber.org/goleak"

	"osqueue/internal/storagetest"
	"osqueue/tests/cluster"
)

// TestMain ignores a goroutine that a library of the GCS client starts on import.
func TestMain(m *testing.M) {
	storagetest.SetS3Credentials()
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

const evil = `"><script>alert(1)</script><img src=x onerror=alert(2)>`

// long is a name without a place for a line break.
var long = strings.Repeat("thumbnail", 20)

type object = map[string]any

// call sends one request to a node.
func call(t *testing.T, node *cluster.Node, method, path string, body any) (out object) {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+node.HTTP+path, bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	res, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode > 299 {
		t.Fatalf("%s %s: %d %s %v", method, path, res.StatusCode, answer, err)
	}
	if len(answer) == 0 {
		return nil
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// seed fills a queue with jobs of all kinds, whose texts are HTML.
func seed(t *testing.T, n *cluster.Node) {
	t.Helper()
	one := 1
	jobs := []object{
		{"id": "dead-1", "type": "mail", "payload": object{"html": evil}, "maxAttempts": one, "tags": []string{"<b>"}},
		{"id": "wait-1", "type": "mail", "payload": "</script>" + evil},
		{"id": "evil-1", "type": evil, "group": evil, "payload": evil},
		{"id": "late-1", "type": "mail", "delayMs": 3_600_000},
		{"id": "then-1", "type": evil, "after": []string{"late-1"}},
		{"id": "then-2", "type": "mail", "after": []string{"late-1"}},
		{"id": "last-1", "type": "report", "after": []string{"then-1", "then-2"}, "headers": object{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}},
	}
	for range 60 {
		jobs = append(jobs, object{"type": "resize-image", "payload": object{"width": 640}})
	}
	call(t, n, "POST", "/v1/jobs/batch", object{"jobs": jobs})
	call(t, n, "POST", "/v1/batches", object{"id": "import", "jobs": []object{{"type": "import"}}})
	call(t, n, "PUT", "/v1/hooks/ops", object{"url": "https://hooks.example.test/" + url.PathEscape(evil), "on": []string{"job.dead"}})
	call(t, n, "PUT", "/v1/crons/nightly", object{"spec": "@daily", "job": object{"type": "mail"}})
	call(t, n, "PUT", "/v1/crons/ran", object{"spec": "@daily", "jitterMs": 60_000, "maxFires": 9, "job": object{"type": "ran", "uniqueKey": "k"}})
	for range 2 {
		call(t, n, "POST", "/v1/crons/ran/trigger", nil)
	}
	call(t, n, "POST", "/v1/workers", object{"name": "w" + evil, "types": []string{"mail"}})
	call(t, n, "POST", "/v1/jobs/claim", object{"workerId": "w" + evil, "types": []string{"mail"}})
	call(t, n, "POST", "/v1/jobs/batch", object{"jobs": []object{{"id": "long-1", "type": long}, {"id": "long-2", "type": long, "maxAttempts": one, "tags": []string{long[:99]}}}})
	call(t, n, "POST", "/v1/jobs/claim", object{"workerId": "w" + long, "types": []string{long}})
	for percent := range 2 {
		call(t, n, "POST", "/v1/jobs/long-1/progress", object{"workerId": "w" + long, "progress": object{"percent": percent, "message": strings.Repeat("resizing", 25)}})
	}
	call(t, n, "POST", "/v1/jobs/claim", object{"workerId": "w" + long, "types": []string{long}})
	call(t, n, "POST", "/v1/jobs/long-2/fail", object{"workerId": "w" + long, "error": long})
	call(t, n, "POST", "/v1/jobs/dead-1/fail", object{"workerId": "w" + evil, "error": evil + "\nat x.go:1"})
	seedFlows(t, n)
}

// seedFlows adds a flow whose first job has completed and whose second is dead, with a job that waits for the flow, and under a limit
// a job that has a step and awaits a signal.
func seedFlows(t *testing.T, n *cluster.Node) {
	t.Helper()
	call(t, n, "POST", "/v1/batches", object{"id": "flow", "jobs": []object{
		{"id": "flow-1", "type": "flow", "step": "fetch"},
		{"id": "flow-2", "type": "flow", "step": "pack " + evil, "after": []string{"flow-1"}, "maxAttempts": 1},
		{"id": "flow-3", "type": "flow", "after": []string{"flow-1"}, "delayMs": 3_600_000},
		{"id": "flow-4", "type": "flow", "step": long[:90], "after": []string{"flow-2", "flow-3"}},
	}, "callback": object{"id": "flow-end", "type": "flow"}})
	call(t, n, "POST", "/v1/jobs", object{"id": "flow-next", "type": "flow", "afterBatches": []string{"flow", "import"}, "after": []string{"flow-2"}, "afterNames": []string{"packed"}})
	claim := func(kind string) object {
		return call(t, n, "POST", "/v1/jobs/claim", object{"workerId": "f", "types": []string{kind}})
	}
	claim("flow")
	call(t, n, "POST", "/v1/jobs/flow-1/complete", object{"workerId": "f"})
	claim("flow")
	call(t, n, "POST", "/v1/jobs/flow-2/fail", object{"workerId": "f"})
	call(t, n, "PUT", "/v1/limits/api:*", object{"maxRunning": 1, "ratePerSecond": 900, "burst": 9})
	call(t, n, "POST", "/v1/jobs/batch", object{"jobs": []object{
		{"id": "sign-1", "type": "sign", "limits": []string{"api:" + evil}, "priority": 1},
		{"id": "held-1", "type": "held", "limits": []string{"api:" + long[:90]}},
		{"type": "held", "limits": []string{"api:" + long[:90]}},
	}})
	lease := object{"workerId": "f", "token": claim("sign")["token"]}
	with := func(o object) object { maps.Copy(o, lease); return o }
	call(t, n, "POST", "/v1/jobs/sign-1/steps", with(object{"name": "charge", "value": object{"id": evil, "amounts": []int{7, 9}}}))
	call(t, n, "POST", "/v1/jobs/sign-1/steps", with(object{"name": long[:90], "value": long}))
	call(t, n, "POST", "/v1/jobs/sign-1/signals/note", object{"value": evil})
	call(t, n, "POST", "/v1/jobs/sign-1/suspend", with(object{"forMs": 7_200_000, "signal": "approved"}))
	claim("held")
	claim("held")
	call(t, n, "POST", "/v1/limits/api:"+long[:90]+"/hold", object{"forMs": 60_000})
}

var pages = map[string]string{
	"overview": "", "jobs": "/jobs", "jobs-dead": "/jobs?status=dead", "bulk": "/bulk?action=retry&status=dead",
	"job": "/jobs/dead-1", "job-evil": "/jobs/evil-1", "job-graph": "/jobs/last-1", "dead": "/dead", "queues": "/queues", "queue": "/queues/" + url.PathEscape(evil),
	"purge": "/queues/mail/purge", "schedules": "/schedules", "schedule": "/schedules/ran", "workers": "/workers", "worker": "/workers/" + url.PathEscape("w"+evil),
	"batches": "/batches", "batch": "/batches/flow", "job-signal": "/jobs/sign-1", "job-flow": "/jobs/flow-next", "limits": "/limits", "events": "/events", "cluster": "/cluster", "missing": "/none", "past": "/past", "hooks": "/hooks", "hook": "/hooks/ops",
	"job-long": "/jobs/long-1", "job-long-dead": "/jobs/long-2", "queue-long": "/queues/" + long, "purge-long": "/queues/" + long + "/purge", "bulk-long": "/bulk?action=retry&status=dead&type=" + long,
	"missing-long": "/jobs/" + long, "jobs-long": "/jobs?type=" + long,
}

// pastPages are the pages about an earlier state.
var pastPages = []string{"", "/jobs", "/jobs/dead-1", "/dead", "/queues", "/queues/mail", "/schedules", "/schedules/nightly", "/workers", "/batches", "/batches/flow", "/limits"}

// withPast returns all pages, with those of the time in ms.
func withPast(ms int64) map[string]string {
	all := maps.Clone(pages)
	for _, path := range pastPages {
		all["past"+strings.ReplaceAll(path, "/", "-")+"-then"] = fmt.Sprintf("/at/%d%s", ms, cmp.Or(path, "/"))
	}
	return all
}

// flushed returns a time in ms whose state, with all jobs of seed, is in the bucket.
func flushed(t *testing.T, node *cluster.Node) int64 {
	t.Helper()
	call(t, node, "POST", "/v1/jobs?ack=object", object{"id": "mark", "type": "mark"})
	return time.Now().UnixMilli()
}

// look is a window and a scheme of colours.
type look struct {
	name, scheme string
	width        int64
}

// looks are all combinations if the pictures are kept, and otherwise two.
func looks() []look {
	two := []look{{"light", "light", 1280}, {"dark-narrow", "dark", 380}}
	if os.Getenv("OSQUEUE_SCREENSHOTS") == "" {
		return two
	}
	return append(two, look{"dark", "dark", 1280}, look{"light-narrow", "light", 380})
}

// The dashboard of a real cluster works in a browser, also after the leader has died.
func TestDashboard(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 15 s")
	}
	b := open(t)
	c := cluster.Start(t, cluster.Options{})
	c.WaitLeader()
	node := c.Follower()
	seed(t, node)
	root := "http://" + node.HTTP + "/ui"
	then := flushed(t, node)
	for _, look := range looks() {
		b.size(look.width, 900, look.scheme)
		for name, path := range withPast(then) {
			b.do(chromedp.Navigate(root+path), chromedp.WaitVisible("h1"))
			b.until("the page "+path, `!document.querySelector("h1").textContent.includes("rebuilt")`)
			b.checkLook(look.name+" "+path, look.width)
			b.shoot(name + "-" + look.name)
			b.check(path)
		}
	}
	b.size(1280, 900, "light")
	for _, path := range []string{"", "/jobs/dead-1", "/jobs/last-1", "/jobs?status=dead", "/dead", "/queues/mail", "/schedules", "/workers", "/batches/flow", "/jobs/sign-1", "/limits", fmt.Sprintf("/past?from=%d", then)} {
		b.do(chromedp.Navigate(root+path), chromedp.WaitVisible("#theme"))
		b.checkControls(path)
	}
	b.act(root)
	b.travel(root, then)
	b.press(root)
	b.survive(c, root)
}

// act presses buttons.
func (b *browser) act(root string) {
	b.t.Helper()
	b.size(1280, 900, "light")
	b.do(chromedp.Navigate(root+"/jobs/dead-1"), chromedp.Click(`form[action$="/retry"] button`))
	b.until("the retry", `document.querySelector(".notice") && document.querySelector(".status").textContent === "available"`)
	b.do(chromedp.Navigate(root+"/queues/mail"), chromedp.SendKeys(`input[name=reason]`, "down "+evil), chromedp.SetValue(`select[name=for]`, "900000"),
		chromedp.Click(`form[action$="/pause"] button`))
	b.until("the pause", `!!document.querySelector("h1 .s-paused") && document.querySelector(".warned").textContent.includes("down")`)
	b.shoot("queue-paused")
	limits := `form[action$="/limits"] `
	b.do(chromedp.SetValue(limits+`input[name=maxJobs]`, "many"), chromedp.Click(limits+`button`))
	b.until("the refusal of the limits", `document.querySelector(".problem[role=alert]").textContent.includes("Jobs that have not ended") && document.querySelector("input[name=maxJobs]").value === "many"`)
	b.do(chromedp.Navigate(root+"/queues/mail"), chromedp.WaitVisible(`form[action$="/resume"]`))
	b.do(chromedp.Evaluate(`fetch("/v1/queues/mail/resume", {method: "POST"})`, nil))
	b.until("the resume by another client", `!!document.querySelector('form[action$="/pause"]')`)
	b.do(chromedp.Navigate(root+"/jobs?status=unclaimed&type=resize-image"), chromedp.Click(`a[href*="action=cancel"]`))
	b.until("the count", `document.querySelector("h1").textContent.includes("60")`)
	b.do(chromedp.Click("main button.danger"))
	b.until("the bulk action", `(document.querySelector(".notice") || {textContent: ""}).textContent.includes("60")`)
	b.do(chromedp.Navigate(root+"/schedules"), chromedp.Click(`form[action$="/trigger"] button`))
	b.until("the trigger", `!!document.querySelector(".notice")`)
	b.check("actions")
}

// travel moves the slider from the present to the time of the seed, and follows links there.
func (b *browser) travel(root string, then int64) {
	b.t.Helper()
	b.do(chromedp.Navigate(fmt.Sprintf("%s/at/%d/jobs/dead-1", root, then)), chromedp.WaitVisible("h1.mono"))
	if now := b.eval(`document.querySelector(".status").textContent`); now != "dead" {
		b.t.Errorf("the job is %s in the past, and was dead", now)
	}
	b.do(chromedp.Click(`nav a[href="queues"]`))
	b.until("the queues of that time", `location.pathname.startsWith("/ui/at/") && location.pathname.endsWith("/queues")`)
	if forms := b.eval(`document.querySelectorAll("form[method=post]").length`); forms != "0" {
		b.t.Errorf("the past has %s actions", forms)
	}
	b.do(chromedp.Navigate(fmt.Sprintf("%s/past?from=%d", root, then)), chromedp.WaitVisible("#slide"), chromedp.Focus("#slide"))
	key := kb.ArrowRight
	if b.eval(`document.querySelector("#slide").value === document.querySelector("#slide").max`) == "true" {
		key = kb.ArrowLeft
	}
	b.do(chromedp.KeyEvent(key))
	b.until("the state of the slider", `location.pathname.startsWith("/ui/at/") && !!document.querySelector(".timebar") && document.readyState === "complete"`)
	b.until("the focus on the slider", `document.activeElement.id === "slide"`)
	b.do(chromedp.Click(`.timebar a[href^="/ui/"]:last-child`))
	b.until("the present", `!location.pathname.startsWith("/ui/at/") && !document.querySelector(".timebar")`)
	b.check("past")
}

// press uses the keys and the switch of the theme.
func (b *browser) press(root string) {
	b.t.Helper()
	b.do(chromedp.Navigate(root), chromedp.WaitVisible("#theme"), chromedp.KeyEvent("g"), chromedp.KeyEvent("q"))
	b.until("the key g q", `location.pathname === "/ui/queues" && document.readyState === "complete"`)
	b.do(chromedp.WaitVisible("#theme"), chromedp.KeyEvent("/"))
	b.until("the key /", `document.activeElement.id === "search"`)
	b.do(chromedp.SetValue("#search", "late-1"), chromedp.KeyEvent(kb.Enter))
	b.until("the search", `location.pathname === "/ui/jobs/late-1" && document.readyState === "complete"`)
	b.do(chromedp.WaitVisible("#theme"), chromedp.Click("#theme"))
	b.until("the theme", `document.documentElement.dataset.theme === "dark"`)
	b.check("keys")
}

// survive kills the leader while the overview and the events are open on another node.
func (b *browser) survive(c *cluster.Cluster, root string) {
	b.t.Helper()
	b.do(chromedp.Navigate(root + "/queues/after"))
	b.until("a live page", `document.querySelector("#live").textContent === "live"`)
	old := c.WaitLeader()
	old.Kill()
	leader := c.WaitOtherLeader(old)
	call(b.t, leader, "POST", "/v1/jobs", object{"type": "after"})
	b.until("the new value", `document.querySelector("#tiles b").textContent === "1"`)
	b.check("after the death of the leader")
}
