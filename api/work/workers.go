package work

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/tenants"
	"osqueue/internal/limit"
)

// registerWorker is POST /v1/workers.
func (s *work) registerWorker(c *core.Call, in *v1.WorkerInfo) error {
	if err := s.checkWorker(in); err != nil {
		return err
	}
	instance, err := instanceOf(in.Instance)
	if err != nil {
		return err
	}
	register := &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterWorker{RegisterWorker: &fsmpb.RegisterWorker{
		Name:    in.Name,
		Types:   in.Types,
		Version: in.Version,
		Address: in.Address,

		Capacity: in.Capacity,
		Instance: instance,
	}}}
	view := s.Node.View()
	if known := view.Worker(c.Owned(in.Name)); c.Key == "" && known != nil && known.Instance == instance && isSame(known, in) {
		done, due := s.beginKeepalive(c.Owned(in.Name))
		defer done()
		if !due {
			c.Lsn = view.LSN()
			return c.SendDone()
		}
		register = heartbeatOf(in.Name, nil)
	}
	return s.CommitDone(c, register, nil)
}

// isSame reports whether a registration would change only the time of the last keepalive.
// Workers repeat their registration every few seconds, and each would be a log entry and a
// write to the bucket.
func isSame(known *fsm.Worker, in *v1.WorkerInfo) bool {
	return !known.Gone() && known.Capacity == in.Capacity && known.Version == in.Version && known.Address == in.Address && slices.Equal(known.Types, in.Types)
}

func (s *work) checkWorker(in *v1.WorkerInfo) error {
	l := &s.Config.Limits
	if in.Name == "" {
		return core.Bad("name", "is missing")
	}
	if len(in.Types) > l.ClaimTypes {
		return core.Bad("types", "has %d items; a worker may have at most %d", len(in.Types), l.ClaimTypes)
	}
	return cmp.Or(l.CheckPathName("name", in.Name), l.CheckNewName("version", in.Version),
		l.CheckNewName("address", in.Address), l.CheckNewNames("types", in.Types))
}

// instanceOf reads the instance of a worker: 16 hexadecimal digits, or 0 for none.
func instanceOf(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 16, 64)
	if err != nil || len(text) != 16 || n == 0 {
		return 0, core.Bad("instance", "must be 16 hexadecimal digits, not all of them 0")
	}
	return n, nil
}

// markWorkerDead is DELETE /v1/workers/{name}: the worker's jobs return to the queue at once.
func (s *work) markWorkerDead(c *core.Call) error {
	name := c.OwnedName(core.WorkerExists)
	instance, err := instanceOf(c.Params.Get(v1.ParamInstance))
	if err != nil {
		return err
	}
	dead := &fsmpb.WorkerDead{Name: name, Instance: instance}
	return s.CommitDone(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_WorkerDead{WorkerDead: dead}}, errNoWorker)
}

// setQuiet returns the handler of POST /v1/workers/{name}/quiet, or of …/unquiet.
func (s *work) setQuiet(quiet bool) func(*core.Call) error {
	return func(c *core.Call) error {
		name := c.OwnedName(core.WorkerExists)
		op := &fsmpb.SetQuiet{Name: name, Quiet: quiet}
		if c.Principal != nil {
			op.By = limit.Clip(strings.ToValidUTF8(c.Principal.ID, "\ufffd"), fsm.QuietByMax)
		}
		return s.CommitDone(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQuiet{SetQuiet: op}}, errNoWorker)
	}
}

var errNoWorker = core.NotThere("worker", "the worker is not registered; it may have been declared dead already")

// listWorkers is GET /v1/workers.
func (s *work) listWorkers(c *core.Call) error {
	limit, from, err := s.ReadNamePage(c.Params)
	if err != nil {
		return err
	}
	v := c.View()
	list := v1.WorkerList{Workers: []v1.Worker{}, LSN: c.Lsn.String()}
	var last string // of the state
	for w := range v.Workers(from) {
		if len(list.Workers) == limit {
			list.NextCursor = core.NameCursorOf(last)
			break
		}
		list.Workers, last = append(list.Workers, workerOf(v, w)), w.Name
	}
	return c.SendJSON(list)
}

// showWorker is GET /v1/workers/{name}.
func (s *work) showWorker(c *core.Call) error {
	name := c.OwnedName(core.WorkerExists)
	v := c.View()
	w := v.Worker(c.Owned(name))
	if w == nil {
		return errNoWorker
	}
	out := workerOf(v, w)
	out.Name = c.Named(w.Name)
	for j := range v.HeldBy(w.Name, 0) {
		if out.JobIDs = append(out.JobIDs, j.ID); len(out.JobIDs) >= s.Config.Limits.WorkerJobs {
			break
		}
	}
	return c.SendJSON(out)
}

// workerOf returns a worker of a state as the API has it.
func workerOf(v *fsm.View, w *fsm.Worker) v1.Worker {
	return v1.Worker{
		Name:         tenants.NameFor("", w.Name),
		Types:        w.Types,
		Version:      w.Version,
		Address:      w.Address,
		RegisteredAt: w.RegisteredAtMs,
		LastSeen:     w.LastSeenMs,
		Running:      v.Held(w.Name),
		Capacity:     w.Capacity,
		QuietSince:   w.QuietSinceMs,
		QuietedBy:    w.QuietedBy,
		GoneAt:       w.GoneAtMs,
	}
}
