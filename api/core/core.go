package core

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"osqueue/api/hooks"
	"osqueue/api/livelog"
	"osqueue/internal/auth"
)

// Core answers calls, whatever front end they came through. It is safe for concurrent use.
type Core struct {
	Config    Config
	Node      Node
	Gate      gate
	Reader    jobReader
	Access    *access
	Forward   forwarding
	Hooks     *hooks.Sender
	Name      string // this node's name
	Log       hclog.Logger
	Metrics   *metrics
	Signs     sync.Map // names of workers, while a keepalive is written
	Shares    shares
	Audited   *auditRing
	Refusals  *refusals // of strangers, in the audit log
	Logs      *livelog.Hub
	Legacy    *auth.Principal // of the clients of ServeLegacy; nil: there are none
	Pages     chan struct{}   // has an item for each page whose items are looked for at present
	Documents chan struct{}   // has an item while the document is encoded
	Closing   context.Context // ends when the server does
	Shut      context.CancelFunc
	served    atomic.Uint64 // names requests in the debug log
	lastLSN   atomic.Pointer[lsnHeader]
}

// forwarding takes calls to the leader.
type forwarding interface {
	// Send lets the leader answer c, which it may do wait later than usual. After an error nothing has been answered.
	Send(c *Call, leader string, wait time.Duration) error
}

// pagesAtOnce bounds the pages of lists whose items are looked for at one time.
const pagesAtOnce = 8

func NewCore(cfg Config) *Core {
	cfg = cfg.withDefaults()
	if !IsAck(cfg.Ack) {
		panic("api: there is no ack level " + strconv.Quote(cfg.Ack))
	}
	s := &Core{Config: cfg, Node: cfg.Backend, Log: cfg.Logger, Name: cfg.Backend.Status().Node, Access: newAccess(cfg.Security), Hooks: cfg.Hooks}
	if s.Hooks == nil {
		s.Hooks = hooks.New(hooks.Config{})
	}
	s.Gate = gate{s: s, To: cfg.Backend}
	s.Config.Backend = nil // only the gate writes
	s.Reader = jobReader{&s.Config.Limits, s.Node.Now}
	s.Metrics, s.Shares = newMetrics(cfg.Metrics), newShares(&cfg.Limits)
	s.Audited, s.Refusals = NewAuditRing(cfg.Security.AuditBytes), &refusals{Limit: rate.NewLimiter(strangerEntries, strangerBurst)}
	s.Logs = livelog.New(livelog.DefaultConfig())
	if cfg.Legacy != nil {
		s.Legacy = auth.Legacy(cfg.Legacy.Types)
	}
	s.Pages, s.Documents = make(chan struct{}, pagesAtOnce), make(chan struct{}, 1)
	s.Closing, s.Shut = context.WithCancel(context.Background())
	return s
}
