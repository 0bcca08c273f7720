package dashboard

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	browserlog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// browser is one tab of headless Chromium.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu    sync.Mutex
	wrong []string // dialogs, exceptions and violations of the policy
}

func findChromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

func open(t *testing.T) *browser {
	t.Helper()
	path := findChromium()
	if path == "" {
		t.Skip("no Chromium in PATH: install the package chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("ignore-certificate-errors", true),
		chromedp.Flag("force-color-profile", "srgb"), chromedp.WSURLReadTimeout(time.Minute))
	timed, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Minute)
	alloc, end := chromedp.NewExecAllocator(timed, options...)
	ctx, closeTab := chromedp.NewContext(alloc)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil { // waits for the end of Chromium
			t.Errorf("end Chromium: %v", err)
		}
		closeTab()
		end()
		cancel()
	})
	b := &browser{t: t, ctx: ctx}
	chromedp.ListenTarget(ctx, b.listen)
	b.do(page.Enable(), browserlog.Enable(), runtime.Enable())
	return b
}

// listen notes dialogs, exceptions and violations of the policy.
func (b *browser) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *page.EventJavascriptDialogOpening:
		b.wrong = append(b.wrong, "dialog "+e.Message)
		go func() { _ = chromedp.Run(b.ctx, page.HandleJavaScriptDialog(true)) }()
	case *runtime.EventExceptionThrown:
		b.wrong = append(b.wrong, "exception "+e.ExceptionDetails.Error())
	case *browserlog.EventEntryAdded:
		if strings.Contains(e.Entry.Text, "Content Security Policy") {
			b.wrong = append(b.wrong, e.Entry.Text)
		}
	}
}

func (b *browser) check(where string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.wrong {
		b.t.Errorf("%s: %s", where, w)
	}
	b.wrong = nil
}

// do runs actions. Chromium ends the load of a page when a network interface comes or goes, as those
// of other tests do; then the page is loaded again.
func (b *browser) do(actions ...chromedp.Action) {
	b.t.Helper()
	var err error
	for range 3 {
		if err = chromedp.Run(b.ctx, actions...); err == nil || !strings.Contains(err.Error(), "net::ERR_NETWORK_CHANGED") {
			break
		}
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) eval(js string) (out string) {
	b.t.Helper()
	b.do(chromedp.Evaluate("String("+js+")", &out))
	return out
}

// until waits for a condition in the page.
func (b *browser) until(what, js string) {
	b.t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		var ok bool
		if chromedp.Run(b.ctx, chromedp.Evaluate(js, &ok)) == nil && ok { // the page may be loading
			return
		}
	}
	b.t.Fatalf("%s did not happen; the page says %.500s", what, b.eval("document.body.innerText"))
}

// size sets the size of the window and the scheme of colours.
func (b *browser) size(width, height int64, scheme string) {
	b.do(emulation.SetDeviceMetricsOverride(width, height, 1, false),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
}

// keepSources makes the pages from now on keep their streams in the array sources.
func (b *browser) keepSources() {
	b.t.Helper()
	b.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(`window.sources = [];
			window.EventSource = class extends EventSource { constructor(...args) { super(...args); sources.push(this); } };`).Do(ctx)
		return err
	}))
}

// hide makes the page see itself hidden, or visible again.
func (b *browser) hide(on bool) {
	b.t.Helper()
	b.do(chromedp.Evaluate(fmt.Sprintf(`Object.defineProperty(document, "hidden", {value: %v, configurable: true}), document.dispatchEvent(new Event("visibilitychange"))`, on), nil))
}

func (b *browser) shoot(name string) {
	dir := os.Getenv("OSQUEUE_SCREENSHOTS")
	if dir == "" {
		return
	}
	var png []byte
	b.do(chromedp.FullScreenshot(&png, 100))
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// contrast is a script that returns the texts whose contrast with their background is below
// 4.5.
const contrast = `(() => {
  const parse = (c) => (c.match(/[\d.]+/g) || []).map(Number);
  const lum = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
  const behind = (el) => {
    for (; el; el = el.parentElement) {
      const c = parse(getComputedStyle(el).backgroundColor);
      if (c.length === 3 || c[3] === 1) return c;
    }
    return [255, 255, 255];
  };
  const bad = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; (n = walk.nextNode());) {
    const el = n.parentElement;
    if (!n.data.trim() || !el.getClientRects().length || el.matches("title,script,option")) continue;
    const [a, b] = [lum(parse(getComputedStyle(el).color)), lum(behind(el))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) bad.push(n.data.trim().slice(0, 30) + " " + ratio.toFixed(2));
  }
  return bad.join("; ");
})()`

func (b *browser) checkLook(where string, width int64) {
	b.t.Helper()
	if bad := b.eval(contrast); bad != "" {
		b.t.Errorf("%s: too little contrast: %s", where, bad)
	}
	if wide := b.eval("document.documentElement.scrollWidth"); wide != fmt.Sprint(width) {
		b.t.Errorf("%s: the page is %s px wide in a window of %d", where, wide, width)
	}
}

// controls is a script with functions about the controls that can be seen: key names one, and
// all returns them.
const controls = `
  window.key = (el) => [el.tagName, el.getAttribute("href"), el.getAttribute("name"), el.id, (el.textContent || "").trim().slice(0, 40)].join(" ");
  window.all = () => [...document.querySelectorAll("a[href],button,input:not([type=hidden]),select,textarea,summary")].filter((el) => el.checkVisibility() && !el.closest("dialog:not([open])"));
`

// unnamed is a script that returns the controls without a name for programs that read pages
// out.
const unnamed = `all().filter((el) => !(el.getAttribute("aria-label") || (el.labels && [...el.labels].some((l) => l.textContent.trim())) || el.textContent.trim() || el.title)).map(key).join("; ")`

// checkControls checks that each control has a name, and that the key Tab reaches it.
func (b *browser) checkControls(where string) {
	b.t.Helper()
	b.do(chromedp.Evaluate(controls+`window.seen = new Set(); addEventListener("focusin", (e) => seen.add(key(e.target)));`, nil))
	if bad := b.eval(unnamed); bad != "" {
		b.t.Errorf("%s: controls without a name: %s", where, bad)
	}
	var count int
	b.do(chromedp.Evaluate("all().length", &count))
	for range count + 1 {
		b.do(chromedp.KeyEvent(kb.Tab))
	}
	if missed := b.eval(`[...new Set(all().map(key))].filter((k) => !seen.has(k) && !k.startsWith("A  ")).join("; ")`); missed != "" {
		b.t.Errorf("%s: Tab does not reach %s", where, missed)
	}
}
