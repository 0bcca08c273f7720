package jobs

import (
	"encoding/hex"
	"errors"
	"net/http"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/artefacts"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
)

// reserve is POST /v1/artefacts.
func (s *jobs) reserve(c *core.Call, in *v1.NewArtefact) error {
	if s.Config.Objects == nil {
		return core.ErrNoArtefacts
	}
	sum, err := hex.DecodeString(in.SHA256)
	switch {
	case err != nil || len(sum) != len(storage.Sum{}):
		return core.Bad("sha256", "must be a SHA-256 in 64 hexadecimal digits")
	case in.Size < 0 || in.Size > artefacts.SizeMax:
		return core.Bad("size", "is %d; must be 0 to %d", in.Size, int64(artefacts.SizeMax))
	}
	id, err := core.NewID()
	if err != nil {
		return err
	}
	op := &fsmpb.ReserveArtefact{Id: id, Size: in.Size, Sum: sum, Sealed: in.Sealed, UntilMs: s.Node.Now() + core.ReservedFor.Milliseconds()}
	res, err := s.Commit(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_ReserveArtefact{ReserveArtefact: op}}, nil)
	if err != nil {
		return err
	}
	out := v1.ArtefactReserved{ID: c.Named(res.Jobs[0].ID), Until: op.UntilMs, LSN: c.LsnText()}
	if first := s.Node.View().Artefact(res.Jobs[0].ID); c.Replayed && first != nil {
		out.Until = first.UntilMs
	}
	if err := s.sign(c, &out, storage.Content{Size: in.Size, Sum: storage.Sum(sum)}); err != nil {
		return err
	}
	return c.SendJSON(out)
}

// sign adds a signed URL for the upload, if the store has them.
func (s *jobs) sign(c *core.Call, out *v1.ArtefactReserved, content storage.Content) error {
	signed, err := s.Config.Objects.SignPut(c.Ctx, artefacts.Key(&fsm.Artefact{Id: out.ID}), content, core.SignedFor)
	if errors.Is(err, errors.ErrUnsupported) || err == nil && signed.Method != http.MethodPut {
		return nil
	}
	if err != nil {
		s.Log.Warn("cannot sign a URL for an artefact; its bytes pass through the nodes", "error", err)
		return nil
	}
	out.URL, out.Headers = signed.URL, make(map[string]string, len(signed.Header))
	for name := range signed.Header {
		out.Headers[name] = signed.Header.Get(name)
	}
	return nil
}

// listArtefacts is GET /v1/jobs/{id}/artefacts.
func (s *jobs) listArtefacts(c *core.Call) error {
	v, j := c.View(), c.State().Job(c.Name)
	if j == nil {
		return fsm.NotFound.Err()
	}
	if err := s.CheckJob(c, j); err != nil {
		return err
	}
	return c.SendJSON(v1.Artefacts{Artefacts: core.ArtefactsOf(v, j.ID), LSN: v.LSN().String()})
}
