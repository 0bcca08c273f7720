package work

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/text"
)

func (s *work) workerRoutes() []core.Route {
	return []core.Route{
		{Method: http.MethodPost, Path: v1.PathWorkers, At: core.LeaderOnly, Handle: s.registerWorker},
		{
			Method: http.MethodGet, Path: v1.PathWorkers, At: core.UpToDate, Past: true, Handle: s.listWorkers,
			Params: []string{v1.ParamLimit, v1.ParamCursor},
		},
		{Method: http.MethodGet, Path: v1.PathWorkers + "/{name}", At: core.UpToDate, Past: true, Handle: s.showWorker},
		{Method: http.MethodDelete, Path: v1.PathWorkers + "/{name}", At: core.LeaderOnly, Handle: s.markWorkerDead, Params: []string{v1.ParamInstance}},
		{Method: http.MethodPost, Path: v1.PathWorkers + "/{name}/" + v1.ActionQuiet, At: core.LeaderOnly, Handle: s.setQuiet(true)},
		{Method: http.MethodPost, Path: v1.PathWorkers + "/{name}/" + v1.ActionUnquiet, At: core.LeaderOnly, Handle: s.setQuiet(false)},
	}
}

// registerWorker is POST /v1/workers.
func (s *work) registerWorker(c *core.Call) error {
	var in v1.WorkerInfo
	if err := c.Decode(&in); err != nil {
		return err
	}
	if err := s.checkWorker(&in); err != nil {
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
	if known := view.Worker(c.Owned(in.Name)); c.Key == "" && known != nil && known.Instance == instance && isSame(known, &in) {
		done, due := s.beginKeepalive(c.Owned(in.Name))
		defer done()
		if !due {
			c.Lsn = view.Meta().LSN
			return answerWorker(c, fsm.Result{}, nil)
		}
		register = HeartbeatOf(in.Name, nil)
	}
	res, err := s.Propose(c, register)
	return answerWorker(c, res, err)
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
	name, err := c.ObjectVariable(core.WorkerExists)
	if err != nil {
		return err
	}
	values, err := c.Query()
	if err != nil {
		return err
	}
	dead := &fsmpb.WorkerDead{Name: name}
	if dead.Instance, err = instanceOf(values.Get(v1.ParamInstance)); err != nil {
		return err
	}
	res, err := s.Propose(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_WorkerDead{WorkerDead: dead}})
	if err == nil && res.Code == fsm.NotFound {
		return noSuchWorker()
	}
	return answerWorker(c, res, err)
}

// setQuiet returns the handler of POST /v1/workers/{name}/quiet, or of …/unquiet.
func (s *work) setQuiet(quiet bool) func(*core.Call) error {
	return func(c *core.Call) error {
		name, err := c.ObjectVariable(core.WorkerExists)
		if err != nil {
			return err
		}
		op := &fsmpb.SetQuiet{Name: name, Quiet: quiet}
		if c.Principal != nil {
			op.By = text.Clip(strings.ToValidUTF8(c.Principal.ID, "\ufffd"), fsm.QuietByMax)
		}
		res, err := s.Propose(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQuiet{SetQuiet: op}})
		if err == nil && res.Code == fsm.NotFound {
			return noSuchWorker()
		}
		return answerWorker(c, res, err)
	}
}

func answerWorker(c *core.Call, res fsm.Result, err error) error {
	if err != nil {
		return err
	}
	if err := res.Code.Err(); err != nil {
		return err
	}
	c.Out = append(core.LsnText(append(c.Out[:0], '{'), c.Lsn), '}')
	return c.Send()
}

func noSuchWorker() error {
	return core.NotThere("worker", "the worker is not registered; it may have been declared dead already")
}

// listWorkers is GET /v1/workers.
func (s *work) listWorkers(c *core.Call) error {
	values, err := c.Query()
	if err != nil {
		return err
	}
	limit, after, err := s.ReadNamePage(values)
	if err != nil {
		return err
	}
	v := c.State().View()
	c.Lsn = v.LSN()
	list := v1.WorkerList{Workers: []v1.Worker{}, LSN: c.Lsn.String()}
	var last string // of the state
	v.WorkersFrom(after.From(), func(w *fsm.Worker) bool {
		if len(list.Workers) == limit {
			list.NextCursor = core.NameCursorOf(last)
			return false
		}
		list.Workers, last = append(list.Workers, WorkerOf(v, w)), w.Name
		return true
	})
	return c.SendJSON(list)
}

// showWorker is GET /v1/workers/{name}.
func (s *work) showWorker(c *core.Call) error {
	name, err := c.ObjectVariable(core.WorkerExists)
	if err != nil {
		return err
	}
	v := c.State().View()
	c.Lsn = v.LSN()
	w := v.Worker(c.Owned(name))
	if w == nil {
		return noSuchWorker()
	}
	out := WorkerOf(v, w)
	out.Name = c.Named(w.Name)
	v.HeldBy(w.Name, 0, func(j *fsm.Job) bool {
		out.JobIDs = append(out.JobIDs, j.ID)
		return len(out.JobIDs) < s.Config.Limits.WorkerJobs
	})
	return c.SendJSON(out)
}

// WorkerOf returns a worker of a state as the API has it.
func WorkerOf(v *fsm.View, w *fsm.Worker) v1.Worker {
	return v1.Worker{
		Name:         fsm.NameFor("", w.Name),
		Types:        w.Types,
		Version:      w.Version,
		Address:      w.Address,
		RegisteredAt: w.RegisteredAt,
		LastSeen:     w.LastSeen,
		Running:      v.Held(w.Name),
		Capacity:     w.Capacity,
		QuietSince:   w.QuietSince,
		QuietedBy:    w.QuietedBy,
		GoneAt:       w.GoneAt,
	}
}
