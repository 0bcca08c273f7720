package clients

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster"
)

// The orders of the test, and how many charges of one customer may run at once.
const (
	ordersCount = 12
	ordersLimit = 2
)

var ordersCustomers = []string{"ann", "ann", "ann", "bob"} // one claim of four jobs would exceed the limit

// shop is the example of the orders in one language.
type shop struct {
	t       *testing.T
	c       *cluster.Cluster
	dir     string // where the programs run
	command []string
	links   map[string]string // by order, the path that approves it
}

// TestOrders runs the example in each language. A worker is killed after a step, and the leader twice: while cards are charged, and
// while orders are approved.
func TestOrders(t *testing.T) {
	t.Parallel()
	example := fromRoot("docs", "examples", "orders")
	for _, l := range append([]language{{name: "go", interpreter: "go"}}, languages...) {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			l.need(t)
			s := &shop{t: t, dir: t.TempDir(), links: map[string]string{}}
			if l.name == "go" {
				program := filepath.Join(s.dir, "orders")
				run(t, cluster.Root(), []string{"CGO_ENABLED=0"}, "go", "build", "-buildvcs=false", "-trimpath", "-o", program, "./docs/examples/orders")
				s.command = []string{program}
			} else {
				s.dir = l.desk(t)
				s.command = []string{l.interpreter, filepath.Join(example, "orders"+l.extension)}
			}
			s.test(l)
		})
	}
}

func (s *shop) test(l language) {
	if l.client != "" { // the client is in the directory of the program
		data, err := os.ReadFile(s.command[1])
		if err == nil {
			s.command[1] = filepath.Join(s.dir, "orders"+l.extension)
			err = os.WriteFile(s.command[1], data, 0o600)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	s.c = cluster.Start(s.t, cluster.Options{})
	ctx := s.c.Context(time.Minute)
	if err := s.c.Client.SetLimit(ctx, "customer:*", v1.LimitRule{MaxRunning: ordersLimit}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.c.Client.SetQueue(ctx, "charge", client.QueuePatch{Lease: client.SetTo(10 * time.Second)}); err != nil {
		s.t.Fatal(err)
	}
	orders := []string{s.killAfterAStep()}
	if _, err := s.c.Client.PauseQueue(ctx, "charge", client.Pause{}); err != nil {
		s.t.Fatal(err)
	}
	for i := range ordersCount {
		orders = append(orders, s.submit(fmt.Sprintf("order-%d", i), ordersCustomers[i%len(ordersCustomers)]))
	}
	s.worker("b")
	s.worker("c")
	if _, err := s.c.Client.ResumeQueue(ctx, "charge"); err != nil { // so that many cards are to be charged at once
		s.t.Fatal(err)
	}
	s.killLeader()
	for i, order := range orders {
		if i == ordersCount/2 {
			s.killLeader()
		}
		s.approve(i, order)
	}
	for i, order := range orders {
		s.mustShip(i, order)
	}
	s.checkLog(orders)
}

func (s *shop) worker(name string) *process {
	return start(s.t, name, s.dir, []string{servers(s.c)}, append(slices.Clone(s.command), "worker")...)
}

func (s *shop) submit(order, customer string) string {
	s.t.Helper()
	out := run(s.t, s.dir, []string{servers(s.c)}, append(slices.Clone(s.command), "submit", order, customer)...)
	s.links[order] = strings.TrimSpace(out)
	return order
}

// killLeader kills the leader while the programs run, and starts its node again.
func (s *shop) killLeader() {
	s.t.Helper()
	s.c.WaitVoters()
	old := s.c.WaitLeader()
	old.Kill()
	s.c.WaitOtherLeader(old)
	old.Start()
}

// killAfterAStep kills a worker when the card of an order is charged, and its receipt is not sent. It returns the order.
func (s *shop) killAfterAStep() string {
	s.t.Helper()
	for i := range 5 {
		order := s.submit(fmt.Sprintf("first-%d", i), "ann")
		w := s.worker("a")
		noted := func(line string) bool {
			return slices.ContainsFunc(s.log(), func(l call) bool { return l.String() == line })
		}
		eventually(s.t, "the receipt of "+order, func() error {
			if !noted("begin receipt " + order) {
				return errNotYet
			}
			return nil
		})
		w.kill()
		if !noted("end receipt " + order) {
			s.note(fmt.Sprintf("killed - - - %d\n", w.cmd.Process.Pid))
			return order
		}
	}
	s.t.Fatal("no worker was killed while it sent a receipt")
	return ""
}

// approve sends the signal of an order: by its link, or with a value by the client. That of the first ones comes before anybody
// waits for it.
func (s *shop) approve(i int, order string) {
	s.t.Helper()
	if i >= ordersCount/2 {
		eventually(s.t, order+" to wait for its approval", func() error {
			job, err := s.c.Client.Job(s.c.Context(10*time.Second), order+".approve")
			if err == nil && job.Awaits != "approved" {
				err = errNotYet
			}
			return err
		})
	}
	if i%2 == 0 {
		if _, err := s.c.Client.SendSignal(s.c.Context(30*time.Second), order+".approve", "approved", "", text("ann")); err != nil {
			s.t.Fatal(err)
		}
		return
	}
	eventually(s.t, "the link of "+order+" to work", func() error {
		var failed error
		for _, server := range s.c.Servers() { // any node forwards it
			resp, err := http.Post("http://"+server+s.links[order], "", nil)
			if err != nil {
				failed = err
				continue
			}
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			failed = errors.New(resp.Status)
		}
		return failed
	})
}

// mustShip waits for the shipment of an order, which has the results of all steps before it.
func (s *shop) mustShip(i int, order string) {
	s.t.Helper()
	by := "ann"
	if i%2 != 0 {
		by = ""
	}
	want := fmt.Sprintf(`["ship of %s","parcel of %[1]s","invoice of %[1]s, paid by charge of %[1]s","approved by %s"]`, order, by)
	job := ending(s.t, s.c, order+".ship")
	if got := strings.ReplaceAll(string(job.Result), `", "`, `","`); job.Status != v1.StatusCompleted || got != want {
		s.t.Errorf("the shipment of %s is %s with %s, want %s: %s", order, job.Status, got, want, job.LastError)
	}
	file, err := s.c.Client.OpenArtefact(s.c.Context(30*time.Second), order+".invoice", "invoice.pdf")
	if err != nil {
		s.t.Fatal(err)
	}
	defer file.Close()
	if text, err := io.ReadAll(file); err != nil || !strings.HasPrefix(string(text), "%PDF-") || !strings.Contains(string(text), "(invoice of "+order) {
		s.t.Errorf("the file of the invoice of %s: %q, %v", order, text, err)
	}
}

// call is a line of orders.log.
type call struct{ when, what, order, customer, pid string }

func (c call) String() string { return c.when + " " + c.what + " " + c.order }

func (s *shop) path() string { return filepath.Join(s.dir, "orders.log") }

func (s *shop) log() (all []call) {
	s.t.Helper()
	data, err := os.ReadFile(s.path())
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if !strings.HasSuffix(line, "\n") || len(f) != 5 {
			continue // it is being written
		}
		all = append(all, call{f[0], f[1], f[2], f[3], f[4]})
	}
	return all
}

func (s *shop) note(line string) {
	s.t.Helper()
	file, err := os.OpenFile(s.path(), os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = file.WriteString(line)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// checkLog checks the calls of other systems: each card is charged and each order shipped once, and the charges of a customer
// that run at once are within the limit.
func (s *shop) checkLog(orders []string) {
	s.t.Helper()
	calls, most := map[string]int{}, 0
	running := map[string][]call{} // by customer
	for _, l := range s.log() {
		switch l.when {
		case "begin":
			calls[l.what+" "+l.order]++
			if l.what == "charge" {
				running[l.customer] = append(running[l.customer], l)
				most = max(most, len(running[l.customer]))
			}
		case "end", "killed":
			for customer, all := range running {
				running[customer] = slices.DeleteFunc(all, func(r call) bool {
					return r.pid == l.pid && (l.when == "killed" || r.order == l.order && l.what == "charge")
				})
			}
		}
	}
	for i, order := range orders {
		receipts := 1
		if i == 0 {
			receipts = 2 // its worker was killed within the step
		}
		for what, want := range map[string]int{"charge": 1, "receipt": receipts, "ship": 1} {
			if n := calls[what+" "+order]; n != want {
				s.t.Errorf("%s: %d calls of %s, want %d", order, n, what, want)
			}
		}
	}
	if most != ordersLimit {
		s.t.Errorf("up to %d charges of a customer ran at once, want %d", most, ordersLimit)
	}
}

// The table of docs/flows.md has the lines of each program, without blank lines and comments.
func TestOrdersLines(t *testing.T) {
	t.Parallel()
	comment := regexp.MustCompile(`^\s*($|//|#|/\*|\*|""")`)
	rows := regexp.MustCompile(`(?m)^\| \[\w+\]\((examples/orders/\S+)\).* \| \w+ \| (\d+) \|`)
	all := rows.FindAllStringSubmatch(strings.Join(lines(t, "docs/flows.md"), "\n"), -1)
	for _, row := range all {
		n := len(slices.DeleteFunc(lines(t, "docs/"+row[1]), comment.MatchString))
		if strconv.Itoa(n) != row[2] {
			t.Errorf("%s has %d lines, docs/flows.md has %s", row[1], n, row[2])
		}
	}
	if len(all) != 7 {
		t.Errorf("%d programs in docs/flows.md, want 7", len(all))
	}
}
