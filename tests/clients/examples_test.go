package clients

import (
	"encoding/json"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster"
)

// need skips the test if a program is not there.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("the example needs %s: %v", p, err)
		}
	}
}

// withCLI returns the environment in which osqueue is a command that talks to c.
func withCLI(t *testing.T, c *cluster.Cluster) []string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(mustBinary(t), filepath.Join(dir, "osqueue")); err != nil {
		t.Fatal(err)
	}
	return []string{servers(c), "PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH")}
}

func mustBinary(t *testing.T) string {
	t.Helper()
	binary, err := cluster.Binary()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// drawing returns a picture of that size, red on the left and blue on the right.
func drawing(width, height int) image.Image {
	img := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			c := color.RGBA{R: 255, A: 255}
			if x >= width/2 {
				c = color.RGBA{B: 255, A: 255}
			}
			img.Set(x, y, c)
		}
	}
	return img
}

// save writes a picture, as JPEG or PNG by its name.
func save(t *testing.T, path string, img image.Image) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if filepath.Ext(path) == ".jpg" {
		err = jpeg.Encode(file, img, nil)
	} else {
		err = png.Encode(file, img)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestThumbnails(t *testing.T) {
	t.Parallel()
	c := languages[0].share(t, 3)
	dir := t.TempDir()
	pictures, small, program := filepath.Join(dir, "pictures"), filepath.Join(dir, "small"), filepath.Join(dir, "thumbnails")
	for _, d := range []string{pictures, small} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	save(t, filepath.Join(pictures, "wide.jpg"), drawing(640, 320))
	save(t, filepath.Join(pictures, "tiny.png"), drawing(40, 20))
	run(t, cluster.Root(), []string{"CGO_ENABLED=0"}, "go", "build", "-buildvcs=false", "-trimpath", "-o", program, "./docs/examples/thumbnails")
	w := start(t, "thumbnails worker", dir, []string{servers(c)}, program, "worker")
	run(t, dir, []string{servers(c)}, program, "submit", "pictures", "small")
	checkThumbnail(t, filepath.Join(small, "wide.jpg.png"), 160, 80)
	checkThumbnail(t, filepath.Join(small, "tiny.png.png"), 40, 20)

	// What is no picture fails for good, and says so.
	if err := os.WriteFile(filepath.Join(pictures, "notes.txt"), []byte("no picture"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := start(t, "thumbnails submit", dir, []string{servers(c)}, program, "submit", "pictures", "small")
	<-again.done
	if again.err == nil || !strings.Contains(again.out.String(), "notes.txt: image: unknown format") {
		t.Errorf("a file that is no picture: %v\n%s", again.err, again.out.String())
	}
	left, err := os.ReadDir(small)
	if err != nil || len(left) != 2 {
		t.Errorf("thumbnails: %v %v, want two", left, err)
	}
	w.signal(syscall.SIGTERM)
	w.ended(20 * time.Second)
}

// checkThumbnail checks a thumbnail's size, and that its ends have the colours of
// the drawing.
func checkThumbnail(t *testing.T, path string, width, height int) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	img, err := png.Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := img.Bounds().Size(); got.X != width || got.Y != height {
		t.Errorf("%s has %v pixels, want %d by %d", path, got, width, height)
	}
	left := color.RGBAModel.Convert(img.At(1, height/2)).(color.RGBA)
	right := color.RGBAModel.Convert(img.At(width-2, height/2)).(color.RGBA)
	if left.R < 230 || left.B > 25 || right.B < 230 || right.R > 25 {
		t.Errorf("%s is %v on the left and %v on the right, want red and blue", path, left, right)
	}
}

func TestWordCount(t *testing.T) {
	t.Parallel()
	need(t, "bash", "jq", "awk", "wc")
	c := languages[0].share(t, 3)
	env, dir := withCLI(t, c), t.TempDir()
	for name, text := range map[string]string{"a.txt": "three little words\n", "b c.txt": "and two\nmore", "d.txt": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := fromRoot("docs", "examples", "wordcount", "wordcount.sh")
	for want, files := range map[string][]string{"6\n": {"a.txt", "b c.txt", "d.txt"}, "3\n": {"a.txt"}} {
		if out := run(t, dir, env, append([]string{"bash", script}, files...)...); out != want {
			t.Errorf("%v have %q words, want %q", files, out, want)
		}
	}
}

func TestPythonTask(t *testing.T) {
	t.Parallel()
	l := languages[0]
	l.need(t)
	c := l.share(t, 3)
	dir := l.desk(t)
	tasks, err := os.ReadFile(fromRoot("docs", "examples", "python-task", "tasks.py"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tasks.py"), tasks, 0o600); err != nil {
		t.Fatal(err)
	}
	w := start(t, "worker", dir, []string{servers(c)}, "python3", "osqueue.py", "worker", "primes=tasks:primes")
	submit := func(payload string) v1.Job {
		id := run(t, dir, []string{servers(c)}, "python3", "osqueue.py", "submit", "primes", payload)
		return ending(t, c, strings.TrimSpace(id))
	}
	mustResult(t, submit(`{"below": 1000000}`), `{"count": 78498, "largest": 999983}`)
	mustResult(t, submit(`{"below": 2}`), `{"count": 0, "largest": null}`)
	if job := submit(`"many"`); job.Status != v1.StatusDead || job.Attempts != 1 {
		t.Errorf("a payload without sense: %s after %d attempts: %s", job.Status, job.Attempts, job.LastError)
	}
	w.signal(syscall.SIGTERM)
	w.ended(20 * time.Second)
}

func TestCronReport(t *testing.T) {
	t.Parallel()
	need(t, "bash", "jq")
	c := cluster.Start(t, cluster.Options{})
	env, dir := withCLI(t, c), fromRoot("docs", "examples", "cron-report")
	enqueue(t, c, client.NewJob{Type: "mail"})
	// Not yet: what is triggered does not care whether the last report has ended.
	out := strings.Fields(run(t, dir, env, "bash", "setup.sh", "0 6 29 2 *"))
	triggered := out[len(out)-1]
	w := start(t, "worker", t.TempDir(), env, mustBinary(t), "worker", "--exec", "report="+filepath.Join(dir, "report.sh"))
	checkReport(t, ending(t, c, triggered))
	// The schedule itself fires, too.
	run(t, dir, env, mustBinary(t), "cron", "put", "report", "*/2 * * * * *", "--type", "report", "--overlap", "skip")
	var fired v1.Job
	eventually(t, "the schedule to fire", func() error {
		for job, err := range c.Client.Jobs(c.Context(10*time.Second), client.ListOptions{Cron: "report", Statuses: []string{v1.StatusCompleted}}) {
			if err != nil {
				return err
			}
			if job.ID != triggered {
				fired = job
				return nil
			}
		}
		return errNotYet
	})
	checkReport(t, fired)
	w.signal(syscall.SIGTERM)
	w.ended(20 * time.Second)
}

// checkReport checks that a report knows of the mail that waits.
func checkReport(t *testing.T, job v1.Job) {
	t.Helper()
	var report struct {
		At    time.Time
		Types map[string]struct{ Waiting, Running, Done, Dead int }
	}
	if err := json.Unmarshal(job.Result, &report); err != nil {
		t.Fatalf("job %s is %s with %s: %v", job.ID, job.Status, job.Result, err)
	}
	if report.Types["mail"].Waiting != 1 || report.Types["report"].Running != 1 || time.Since(report.At) > time.Hour {
		t.Errorf("the report is %s", job.Result)
	}
}
