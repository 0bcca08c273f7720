package api

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/clip"
)

func (s *work) workerRoutes() []route {
	return []route{
		{method: http.MethodPost, path: v1.PathWorkers, at: leaderOnly, handle: s.registerWorker},
		{
			method: http.MethodGet, path: v1.PathWorkers, at: upToDate, past: true, handle: s.listWorkers,
			params: []string{v1.ParamLimit, v1.ParamCursor},
		},
		{method: http.MethodGet, path: v1.PathWorkers + "/{name}", at: upToDate, past: true, handle: s.showWorker},
		{method: http.MethodDelete, path: v1.PathWorkers + "/{name}", at: leaderOnly, handle: s.markWorkerDead, params: []string{v1.ParamInstance}},
		{method: http.MethodPost, path: v1.PathWorkers + "/{name}/" + v1.ActionQuiet, at: leaderOnly, handle: s.setQuiet(true)},
		{method: http.MethodPost, path: v1.PathWorkers + "/{name}/" + v1.ActionUnquiet, at: leaderOnly, handle: s.setQuiet(false)},
	}
}

// registerWorker is POST /v1/workers.
func (s *work) registerWorker(c *call) error {
	var in v1.WorkerInfo
	if err := c.decode(&in); err != nil {
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
	view := s.b.View()
	if known := view.Worker(c.owned(in.Name)); c.key == "" && known != nil && known.Instance == instance && isSame(known, &in) {
		done, due := s.beginKeepalive(c.owned(in.Name))
		defer done()
		if !due {
			c.lsn = view.Meta().LSN
			return answerWorker(c, fsm.Result{}, nil)
		}
		register = heartbeatOf(in.Name, nil)
	}
	res, err := s.propose(c, register)
	return answerWorker(c, res, err)
}

// isSame reports whether a registration would change only the time of the last keepalive.
// Workers repeat their registration every few seconds, and each would be a log entry and a
// write to the bucket.
func isSame(known *fsm.Worker, in *v1.WorkerInfo) bool {
	return !known.Gone() && known.Capacity == in.Capacity && known.Version == in.Version && known.Address == in.Address && slices.Equal(known.Types, in.Types)
}

func (s *work) checkWorker(in *v1.WorkerInfo) error {
	l := &s.cfg.Limits
	if in.Name == "" {
		return bad("name", "is missing")
	}
	if len(in.Types) > l.ClaimTypes {
		return bad("types", "has %d items; a worker may have at most %d", len(in.Types), l.ClaimTypes)
	}
	return cmp.Or(l.checkPathName("name", in.Name), l.checkNewName("version", in.Version),
		l.checkNewName("address", in.Address), l.checkNewNames("types", in.Types))
}

// instanceOf reads the instance of a worker: 16 hexadecimal digits, or 0 for none.
func instanceOf(text string) (uint64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 16, 64)
	if err != nil || len(text) != 16 || n == 0 {
		return 0, bad("instance", "must be 16 hexadecimal digits, not all of them 0")
	}
	return n, nil
}

// markWorkerDead is DELETE /v1/workers/{name}: the worker's jobs return to the queue at once.
func (s *work) markWorkerDead(c *call) error {
	name, err := c.objectVariable(workerExists)
	if err != nil {
		return err
	}
	values, err := c.query()
	if err != nil {
		return err
	}
	dead := &fsmpb.WorkerDead{Name: name}
	if dead.Instance, err = instanceOf(values.Get(v1.ParamInstance)); err != nil {
		return err
	}
	res, err := s.propose(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_WorkerDead{WorkerDead: dead}})
	if err == nil && res.Code == fsm.NotFound {
		return noSuchWorker()
	}
	return answerWorker(c, res, err)
}

// setQuiet returns the handler of POST /v1/workers/{name}/quiet, or of …/unquiet.
func (s *work) setQuiet(quiet bool) func(*call) error {
	return func(c *call) error {
		name, err := c.objectVariable(workerExists)
		if err != nil {
			return err
		}
		op := &fsmpb.SetQuiet{Name: name, Quiet: quiet}
		if c.principal != nil {
			op.By = clip.To(strings.ToValidUTF8(c.principal.ID, "\ufffd"), fsm.QuietByMax)
		}
		res, err := s.propose(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQuiet{SetQuiet: op}})
		if err == nil && res.Code == fsm.NotFound {
			return noSuchWorker()
		}
		return answerWorker(c, res, err)
	}
}

func answerWorker(c *call, res fsm.Result, err error) error {
	if err != nil {
		return err
	}
	if err := res.Code.Err(); err != nil {
		return err
	}
	c.out = append(lsnText(append(c.out[:0], '{'), c.lsn), '}')
	return c.send()
}

func noSuchWorker() error {
	return notThere("worker", "the worker is not registered; it may have been declared dead already")
}

// listWorkers is GET /v1/workers.
func (s *work) listWorkers(c *call) error {
	values, err := c.query()
	if err != nil {
		return err
	}
	limit, after, err := s.readNamePage(values)
	if err != nil {
		return err
	}
	v := c.state().View()
	c.lsn = v.LSN()
	list := v1.WorkerList{Workers: []v1.Worker{}, LSN: c.lsn.String()}
	var last string // of the state
	v.WorkersFrom(after.from(), func(w *fsm.Worker) bool {
		if len(list.Workers) == limit {
			list.NextCursor = nameCursorOf(last)
			return false
		}
		list.Workers, last = append(list.Workers, WorkerOf(v, w)), w.Name
		return true
	})
	return c.sendJSON(list)
}

// showWorker is GET /v1/workers/{name}.
func (s *work) showWorker(c *call) error {
	name, err := c.objectVariable(workerExists)
	if err != nil {
		return err
	}
	v := c.state().View()
	c.lsn = v.LSN()
	w := v.Worker(c.owned(name))
	if w == nil {
		return noSuchWorker()
	}
	out := WorkerOf(v, w)
	out.Name = c.named(w.Name)
	v.HeldBy(w.Name, 0, func(j *fsm.Job) bool {
		out.JobIDs = append(out.JobIDs, j.ID)
		return len(out.JobIDs) < s.cfg.Limits.WorkerJobs
	})
	return c.sendJSON(out)
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
