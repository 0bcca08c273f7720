package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"osqueue/client"
	"osqueue/client/worker"
	"osqueue/tests/cluster"
)

// The page of a running job shows its log line by line, keeps all of it over the death of the leader,
// and shows the stored log when the job has ended. The log is text, whatever it contains.
func TestLiveLog(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 10 s")
	}
	b := open(t)
	c := cluster.Start(t, cluster.Options{})
	old := c.WaitLeader()
	node := c.Follower()
	end := make(chan struct{})
	work(t, c.Client, func(ctx context.Context, job worker.Job) (json.RawMessage, error) {
		job.Log(evil)
		for i := 0; ; i++ {
			job.Log(fmt.Sprintf("line %d: the image is resized to 640 pixels, and its colours are converted to sRGB", i))
			job.Progress(min(i, 99), "resizing")
			select {
			case <-end:
				job.Log("the last line")
				return json.RawMessage(`{"width":640}`), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	if _, err := c.Client.Enqueue(t.Context(), client.NewJob{ID: "live-1", Type: "live", Payload: []byte(`{"width":640}`)}); err != nil {
		t.Fatal(err)
	}
	const log = `document.querySelector("#livelog pre").textContent`
	page := "http://" + node.HTTP + "/ui/jobs/live-1"
	b.keepSources()
	c.Eventually(cluster.LeaderTimeout, "the job on a follower", func() error { return served(page) })
	for _, look := range looks() {
		b.size(look.width, 900, look.scheme)
		b.do(chromedp.Navigate(page), chromedp.WaitVisible("#livelog pre"))
		b.until("the log", log+`.includes("line 3:") && `+log+`.includes("<script>")`)
		b.checkLook(look.name+" live log", look.width)
		b.shoot("job-live-" + look.name)
		b.check("live log")
	}
	b.hide(true)
	b.do(chromedp.Evaluate(`window.hidden = `+log+`, 0`, nil))
	time.Sleep(time.Second)
	if open := b.eval(`sources.filter((s) => s.readyState !== EventSource.CLOSED).length + (window.hidden === ` + log + ` ? "" : ", and new lines")`); open != "0" {
		t.Errorf("a hidden page has streams: %s", open)
	}
	b.hide(false)
	lines := b.eval(log + `.split("\n").length`)
	b.until("the lines of a page that was hidden", log+`.split("\n").length > `+lines+` + 5`)
	b.until("both streams of a page that was hidden", `sources.filter((s) => s.readyState === EventSource.OPEN).length === 2`)
	if missing := b.eval(`(() => { const all = ` + log + `.split("\n").filter((l) => l.startsWith("line ")).map((l) => parseInt(l.slice(5))); return all.some((n, i) => n !== all[0] + i); })()`); missing != "false" {
		t.Errorf("the log lacks lines: %s", b.eval(log))
	}
	old.Kill()
	c.WaitOtherLeader(old)
	b.until("the lines after the death of the leader", log+`.split("\n").length > `+lines+` + 10`)
	if twice := b.eval(`(() => { const all = ` + log + `.split("\n").filter((l) => l.startsWith("line ")); return all.length - new Set(all).size; })()`); twice != "0" {
		t.Errorf("%s lines appear twice", twice)
	}
	close(end)
	b.until("the end", `document.querySelector(".status").textContent === "completed"`)
	b.until("the last line", `document.body.innerText.includes("the last line")`)
	if twice := b.eval(`document.body.innerText.split("the last line").length - 1`); twice != "1" {
		t.Errorf("the page shows the log %s times", twice)
	}
	b.shoot("job-live-ended")
	b.do(chromedp.Navigate(page), chromedp.WaitVisible("#log pre"))
	b.until("the stored log", `document.querySelector("#log pre").textContent.includes("the last line")`)
	b.check("the end of a live log")
}

// served returns an error unless the page is answered with 200. A follower applies a job a moment
// after the leader has answered.
func served(page string) error {
	resp, err := http.Get(page)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// work runs a worker for jobs of the type live until the test ends.
func work(t *testing.T, c *client.Client, fn worker.HandlerFunc) {
	t.Helper()
	w, err := worker.New(c, worker.Config{Concurrency: 1, StopTimeout: -1})
	if err != nil {
		t.Fatal(err)
	}
	w.Handle("live", fn)
	ctx, stop := context.WithCancel(t.Context())
	var runs sync.WaitGroup
	runs.Go(func() {
		if err := w.Run(ctx); err != nil {
			t.Errorf("the worker: %v", err)
		}
	})
	t.Cleanup(func() { stop(); runs.Wait() })
}
