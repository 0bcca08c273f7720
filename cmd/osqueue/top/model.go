package top

import (
	"context"
	"errors"
	"iter"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

// pane is the table below the head of the screen.
type pane int

const (
	paneTypes pane = iota
	paneWorkers
	paneNodes
	panes
)

// order is the order of the types.
type order int

const (
	byOldest order = iota // the type whose oldest available job waits longest first
	byAvailable
	byRunning
	byDead
	byName
	orders
)

var orderNames = [orders]string{"oldest", "available", "running", "dead", "name"}

// model is the state of the screen. Update and View are called by Bubble Tea, one at a
// time.
type model struct {
	g      *view.Globals
	p      *poller
	every  time.Duration
	now    figures
	polled bool
	pane   pane
	order  order
	top    int // the first row that is shown
	still  bool
	width  int
	height int
}

// Messages of the model.
type (
	pollMsg    struct{} // the interval is over
	figuresMsg figures
)

func newModel(g *view.Globals, p *poller, every time.Duration) *model {
	return &model{g: g, p: p, every: every, width: 80, height: 24}
}

// Init starts the first poll.
func (m *model) Init() tea.Cmd { return m.poll() }

func (m *model) poll() tea.Cmd {
	last := m.now
	return func() tea.Msg { return figuresMsg(m.p.poll(last)) }
}

func (m *model) wait() tea.Cmd {
	return tea.Tick(m.every, func(time.Time) tea.Msg { return pollMsg{} })
}

// Update takes a message.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case figuresMsg:
		if !m.still {
			m.now, m.polled = figures(msg), true
		}
		return m, m.wait()
	case pollMsg:
		if m.still {
			return m, m.wait()
		}
		return m, m.poll()
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m, m.press(msg.String())
	}
	return m, nil
}

// press handles a key.
func (m *model) press(key string) tea.Cmd {
	page := max(1, m.room()-1)
	switch key {
	case "q", "esc", "ctrl+c":
		return tea.Quit
	case "tab":
		m.pane, m.top = (m.pane+1)%panes, 0
	case "s":
		m.order, m.top = (m.order+1)%orders, 0
	case "space":
		m.still = !m.still
	case "up", "k":
		m.top--
	case "down", "j":
		m.top++
	case "pgup":
		m.top -= page
	case "pgdown":
		m.top += page
	case "home", "g":
		m.top = 0
	case "end", "G":
		m.top = m.length()
	}
	m.top = max(0, min(m.top, m.length()-page))
	return nil
}

// length is the number of rows of the pane.
func (m *model) length() int {
	switch m.pane {
	case paneWorkers:
		return len(m.now.workers)
	case paneNodes:
		return len(m.now.nodes)
	}
	return len(m.now.types)
}

// leastInterval bounds the load of a screen that stays open.
const leastInterval = 200 * time.Millisecond

// Commands returns the commands of this package.
func Commands(g *view.Globals) []*cobra.Command { return []*cobra.Command{newCommand(g)} }

func newCommand(g *view.Globals) *cobra.Command {
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch types, workers and nodes on a screen",
		Long: `Shows the nodes, the rates of the last half hour, and the types or the workers, and
refreshes them. The command does not change the queue.

Keys: tab switches between types, workers and nodes, s changes the order of types,
the arrow keys and page keys scroll, space stops and continues, q quits.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case g.JSON:
				return view.Usagef("osqueue top is a screen for people; for programs use osqueue stats --json or osqueue queue ls --json")
			case !g.OnScreen():
				return view.Usagef("osqueue top needs a terminal; osqueue status and osqueue queue ls print once")
			}
			c, err := g.Client()
			if err != nil {
				return err
			}
			defer c.Close()
			m := newModel(g, &poller{c: c, timeout: g.Timeout}, every)
			_, err = tea.NewProgram(m, tea.WithContext(cmd.Context()), tea.WithInput(g.In), tea.WithOutput(g.Out), tea.WithoutSignalHandler()).Run()
			if errors.Is(err, tea.ErrProgramKilled) && cmd.Context().Err() != nil {
				return nil // SIGTERM is an orderly end, as q is
			}
			return err
		},
	}
	every = 2 * time.Second
	cmd.Flags().Var(view.SpanFrom(&every, leastInterval), "interval", "time between two polls of the cluster")
	return cmd
}

const (
	minutesShown = 30
	typesMost    = 1000 // types that one poll reads, those whose jobs wait longest
)

// figures are the result of one poll.
type figures struct {
	at      time.Time
	nodes   []client.NodeStatus
	types   []v1.Queue
	more    bool // there are more types than typesMost
	workers []v1.Worker
	history v1.History
	err     error // why types, workers or history are those of an earlier poll
}

// cluster is the part of the client that a poll uses.
type cluster interface {
	StatusAll(ctx context.Context) []client.NodeStatus
	Queues(ctx context.Context, sort string) iter.Seq2[v1.Queue, error]
	Workers(ctx context.Context) ([]v1.Worker, error)
	History(ctx context.Context, jobType string, minutes int) (v1.History, error)
}

// poller asks the cluster.
type poller struct {
	c       cluster
	timeout time.Duration
}

// poll returns the present figures. If the cluster does not answer, it keeps those of last.
func (p *poller) poll(last figures) figures {
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	now := figures{at: time.Now(), nodes: p.c.StatusAll(ctx)}
	var errs [3]error
	now.types, now.more, errs[0] = p.types(ctx)
	now.workers, errs[1] = p.c.Workers(ctx)
	now.history, errs[2] = p.c.History(ctx, "", minutesShown)
	if now.err = errors.Join(errs[:]...); now.err != nil {
		now.at, now.types, now.more, now.workers, now.history = last.at, last.types, last.more, last.workers, last.history
	}
	return now
}

func (p *poller) types(ctx context.Context) (out []v1.Queue, more bool, err error) {
	for q, err := range p.c.Queues(ctx, v1.SortOldestAt) {
		if err != nil {
			return nil, false, err
		}
		if len(out) == typesMost {
			return out, true, nil
		}
		out = append(out, q)
	}
	return out, false, nil
}
