package api

import (
	"errors"
	"net/http"

	v1 "osqueue/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

func (s *Server) workerRoutes() []route {
	return []route{
		{method: http.MethodPost, path: v1.PathWorkers, at: leaderOnly, handle: s.registerWorker},
		{method: http.MethodGet, path: v1.PathWorkers, at: upToDate, handle: s.listWorkers},
		{method: http.MethodDelete, path: v1.PathWorkers + "/{name}", at: leaderOnly, handle: s.buryWorker},
	}
}

// registerWorker is POST /v1/workers.
func (s *Server) registerWorker(c *call) error {
	var in v1.WorkerInfo
	if err := c.decode(&in); err != nil {
		return err
	}
	if err := s.checkWorker(&in); err != nil {
		return err
	}
	res, err := s.propose(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterWorker{RegisterWorker: &fsmpb.RegisterWorker{
		Name:    in.Name,
		Types:   in.Types,
		Version: in.Version,
		Address: in.Address,
	}}})
	return answerWorker(c, res, err)
}

func (s *Server) checkWorker(in *v1.WorkerInfo) error {
	l := &s.cfg.Limits
	if in.Name == "" {
		return fail(badRequest, "name is missing")
	}
	if len(in.Types) > l.ClaimTypes {
		return fail(badRequest, "types has %d items; at most %d a worker", len(in.Types), l.ClaimTypes)
	}
	return errors.Join(l.checkName("name", in.Name), l.checkName("version", in.Version),
		l.checkName("address", in.Address), l.checkNames("types", in.Types))
}

// buryWorker is DELETE /v1/workers/{name}: its jobs go back at once.
func (s *Server) buryWorker(c *call) error {
	name, err := c.segment("name")
	if err != nil {
		return err
	}
	res, err := s.propose(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_WorkerDead{WorkerDead: &fsmpb.WorkerDead{Name: name}}})
	if err == nil && res.Code == fsm.NotFound {
		k := failureOf(fsm.NotFound.Err()).kind
		k.title = "There is no such worker"
		return fail(k, "no such worker is registered; it may have been declared dead already")
	}
	return answerWorker(c, res, err)
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

// listWorkers is GET /v1/workers.
func (s *Server) listWorkers(c *call) error {
	v := s.b.View()
	c.lsn = v.LSN()
	list := v1.WorkerList{Workers: make([]v1.Worker, 0, v.WorkerCount()), LSN: c.lsn.String()}
	v.Workers(func(w *fsm.Worker) bool {
		list.Workers = append(list.Workers, v1.Worker{
			Name:         w.Name,
			Types:        w.Types,
			Version:      w.Version,
			Address:      w.Address,
			RegisteredAt: w.RegisteredAt,
			LastSeen:     w.LastSeen,
		})
		return true
	})
	return c.sendJSON(list)
}
