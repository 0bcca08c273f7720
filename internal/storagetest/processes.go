package storagetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"osqueue/storage"
)

// childEnv holds, in a process that Processes has started, the argument for
// opening the bucket and the child's number.
const childEnv = "OSQUEUE_STORAGETEST_CHILD"

const (
	ledger        = "ledger"
	childRoutines = 8
	// processesLimit bounds the whole test; a child that outlives its parent
	// ends by it as well.
	processesLimit = 2 * time.Minute
)

// Main runs the tests, or, in a child process of Processes, the child's work on
// the bucket that open opens for the argument given to Processes. It does not
// return in a child. Call it first in TestMain.
func Main(open func(ctx context.Context, arg string) (storage.Bucket, error)) {
	value, ok := os.LookupEnv(childEnv)
	if !ok {
		return
	}
	name, arg, _ := strings.Cut(value, " ")
	if err := child(name, arg, open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// child appends entries to the ledger from several goroutines, each through
// compare-and-swap, until its input ends. It prints every entry after it was
// committed, and only then.
func child(name, arg string, open func(context.Context, string) (storage.Bucket, error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), processesLimit)
	defer cancel()
	b, err := open(ctx, arg)
	if err != nil {
		return err
	}
	defer b.Close()
	stop := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin) // ends when the parent closes it or dies
		close(stop)
	}()
	errs := make([]error, childRoutines)
	var group sync.WaitGroup
	for i := range childRoutines {
		group.Go(func() { errs[i] = appendEntries(ctx, b, fmt.Sprintf("%s.%d", name, i), stop) })
	}
	group.Wait()
	return errors.Join(errs...)
}

func appendEntries(ctx context.Context, b storage.Bucket, name string, stop <-chan struct{}) error {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return nil
		default:
		}
		entry := fmt.Sprintf("%s.%d", name, n)
		if err := appendEntry(ctx, b, entry); err != nil {
			return fmt.Errorf("%s: %w", entry, err)
		}
		if _, err := fmt.Println(entry); err != nil { // one write(2): lines stay whole
			return err
		}
	}
}

// appendEntry returns once a version of the ledger that has the entry is
// committed. Unknown is an error: nothing here loses answers.
func appendEntry(ctx context.Context, b storage.Bucket, entry string) error {
	for {
		o, err := b.Get(ctx, ledger)
		if err != nil {
			return err
		}
		w := b.PutIfMatch(ctx, ledger, append(o.Data, entry+"\n"...), o.Version)
		switch w.Outcome {
		case storage.Committed:
			return nil
		case storage.Unknown:
			return w.Err
		}
	}
}

// Load says how hard Processes tries.
type Load struct {
	// Children is how many processes run at a time.
	Children int
	// Kills is how many of them are killed with SIGKILL and replaced.
	Kills int
	// Acked is how many entries have to be acknowledged between two kills.
	Acked int
}

// Processes runs child processes that race to append to one object, kills some
// with SIGKILL in the middle of it, and checks that every acknowledged entry is
// in the object exactly once, and no entry twice. The test binary's TestMain
// has to call Main; arg is handed to its open. b is the same bucket.
func Processes(t *testing.T, b storage.Bucket, arg string, load Load) {
	ctx, cancel := context.WithTimeout(t.Context(), processesLimit)
	defer cancel()
	mustCommit(t, b.PutIfAbsent(ctx, ledger, nil))
	p := &processes{t: t, arg: arg, acks: make(chan string, 1024), acked: map[string]bool{}}
	start := time.Now()
	for range load.Children {
		p.start(ctx)
	}
	for range load.Kills {
		p.collect(ctx, load.Acked)
		p.kill()
		p.start(ctx)
	}
	p.collect(ctx, load.Acked)
	p.stop()
	took := time.Since(start)
	p.compare(mustGet(ctx, t, b, ledger).Data)
	t.Logf("%d entries acknowledged by %d processes × %d goroutines under %d kills: %.0f/s",
		len(p.acked), load.Children, childRoutines, load.Kills, float64(len(p.acked))/took.Seconds())
}

type processes struct {
	t       *testing.T
	arg     string
	started int
	alive   []*childProcess
	acks    chan string
	acked   map[string]bool
}

type childProcess struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	read   chan struct{} // closed when its output has been read to the end
	stderr strings.Builder
}

func (p *processes) start(ctx context.Context) {
	p.t.Helper()
	p.started++
	c := &childProcess{cmd: exec.CommandContext(ctx, os.Args[0]), read: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=p%d %s", childEnv, p.started, p.arg))
	c.cmd.Stderr = &c.stderr
	stdin, err1 := c.cmd.StdinPipe()
	stdout, err2 := c.cmd.StdoutPipe()
	if err := errors.Join(err1, err2, c.cmd.Start()); err != nil {
		p.t.Fatal(err)
	}
	c.stdin = stdin
	go func() {
		defer close(c.read)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			p.acks <- lines.Text()
		}
	}()
	p.alive = append(p.alive, c)
}

// collect waits for n more acknowledged entries.
func (p *processes) collect(ctx context.Context, n int) {
	p.t.Helper()
	for range n {
		select {
		case entry := <-p.acks:
			p.acked[entry] = true
		case <-ctx.Done():
			p.t.Fatalf("only %d entries were acknowledged: %v", len(p.acked), ctx.Err())
		}
	}
}

// kill ends the oldest child in the middle of its work.
func (p *processes) kill() {
	c := p.alive[0]
	p.alive = p.alive[1:]
	c.cmd.Process.Kill()
	p.drain(c)
	c.cmd.Wait() // reports the kill, which is no news
}

// stop lets the children end what they do and collects the rest.
func (p *processes) stop() {
	p.t.Helper()
	for _, c := range p.alive {
		c.stdin.Close()
	}
	for _, c := range p.alive {
		p.drain(c)
		if err := c.cmd.Wait(); err != nil {
			p.t.Errorf("child: %v\n%s", err, c.stderr.String())
		}
	}
}

// drain reads acknowledgements until the child's output has ended.
func (p *processes) drain(c *childProcess) {
	for {
		select {
		case entry := <-p.acks:
			p.acked[entry] = true
		case <-c.read:
			for len(p.acks) > 0 {
				p.acked[<-p.acks] = true
			}
			return
		}
	}
}

func (p *processes) compare(data []byte) {
	p.t.Helper()
	times := map[string]int{}
	for _, entry := range strings.Fields(string(data)) {
		times[entry]++
		if times[entry] > 1 {
			p.t.Errorf("entry %s is there %d times", entry, times[entry])
		}
	}
	for entry := range p.acked {
		if times[entry] == 0 {
			p.t.Errorf("entry %s was acknowledged and is lost", entry)
		}
	}
	if most := len(p.acked) + p.started*childRoutines; len(times) > most {
		p.t.Errorf("the ledger has %d entries, at most %d can have been committed", len(times), most)
	}
}
