package admin

import (
	"strings"

	"osqueue/api/core"
	"osqueue/api/hooks"
	v1 "osqueue/client/api/v1"
	"osqueue/client/webhook"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/outbox"
)

var errNoHook = core.NotThere("hook", "the hook does not exist")

// secretOverlapMs is how long the old secret signs after a rotation: a day.
const secretOverlapMs = 86_400_000

// putHook is PUT /v1/hooks/{name}. The answer has the secret if this request made one.
func (s *admin) putHook(c *core.Call, in *v1.NewHook) error {
	name := c.Name
	if err := s.Config.Limits.CheckCronName(name); err != nil {
		return err
	}
	if len(name) > outbox.NameMax {
		return core.Bad("name", "has %d bytes; at most %d are allowed", len(name), outbox.NameMax)
	}
	h, err := readHook(in)
	if err != nil {
		return err
	}
	if c.Key != "" {
		return core.Fail(core.BadRequest, "leave out the idempotency key: only the first answer has the secret of a hook, and a repeated "+
			"request changes nothing")
	}
	h.Name, h.MadeBy = name, maker(c)
	op := &fsmpb.PutHook{Hook: h}
	secret, made, err := s.hookSecret(name, in)
	if err != nil {
		return err
	}
	if secret != nil {
		h.Secret, h.KeyId = s.Hooks.Keys().Seal(name, secret)
		op.OverlapMs = secretOverlapMs
	}
	deleted := core.Fail(core.Overtaken, "the hook was deleted while this request replaced it; send the request again")
	if _, err := s.Commit(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_PutHook{PutHook: op}}, deleted); err != nil {
		return err
	}
	out := v1.HookPut{LSN: c.Lsn.String()}
	if why := s.Hooks.Unreachable(c.Context(), in.URL); why != nil {
		out.Warning = "no event can reach the URL: " + why.Error()
	}
	if made {
		out.Secret = secret.Text()
	}
	return c.SendJSON(out)
}

// hookSecret returns the secret that a hook gets, nil if it keeps its own, and whether it was
// made by this request.
func (s *admin) hookSecret(name string, in *v1.NewHook) (secret webhook.Secret, made bool, err error) {
	switch {
	case in.Secret != "" && in.RotateSecret:
		return nil, false, core.Bad("rotateSecret", "cannot be combined with a secret")
	case in.Secret != "":
		if secret, err = webhook.ParseSecret(in.Secret); err != nil {
			return nil, false, core.Bad("secret", "must be whsec_ and the Base64 of 24 to 64 bytes")
		}
		return secret, false, nil
	case in.RotateSecret || s.Node.View().Hook(name) == nil:
		return webhook.NewSecret(), true, nil
	}
	return nil, false, nil
}

// readHook checks the body of putHook.
func readHook(in *v1.NewHook) (*fsmpb.Hook, error) {
	if err := hooks.CheckURL(in.URL, in.HTTP); err != nil {
		return nil, core.Bad("url", "%v", err)
	}
	kinds := outbox.Kinds(0)
	for _, glob := range in.On {
		matching := outbox.KindsMatching(glob)
		if matching == 0 {
			return nil, core.Bad("on", "has %q, which matches no event; the events are %s", core.Shown(glob), strings.Join(outbox.AllKinds.Names(), ", "))
		}
		kinds |= matching
	}
	if kinds == 0 {
		return nil, core.Bad("on", "is empty; name events, such as job.dead or queue.*")
	}
	if len(in.Types) > outbox.TypesMax {
		return nil, core.Bad("types", "has %d items; at most %d are allowed", len(in.Types), outbox.TypesMax)
	}
	for _, glob := range in.Types {
		if glob == "" || len(glob) > hookGlobMax || strings.ContainsAny(glob, `[]\`) {
			return nil, core.Bad("types", "has %q; write at most %d bytes, in which * matches any bytes and ? matches one", core.Shown(glob), hookGlobMax)
		}
	}
	h := &fsmpb.Hook{
		Url: in.URL, Kinds: uint64(kinds), Types: in.Types, Plain: in.HTTP, Paused: in.Paused, OldestAgeMs: in.OldestAgeMs,
		FailurePercent: in.FailurePercent, DeadGrew: in.DeadGrew, LagMs: in.LagMs, BufferBytes: in.BufferBytes, RetryForMs: in.RetryForMs,
	}
	return h, checkHookLimits(in)
}

// hookGlobMax bounds a glob of types, in bytes.
const hookGlobMax = 256

func checkHookLimits(in *v1.NewHook) error {
	for _, l := range []struct {
		name        string
		value, most int64
	}{
		{"oldestAgeMs", in.OldestAgeMs, hookTimeMax},
		{"failurePercent", in.FailurePercent, 100},
		{"deadGrew", in.DeadGrew, 1 << 40},
		{"lagMs", in.LagMs, hookTimeMax},
		{"retryForMs", in.RetryForMs, hookTimeMax},
	} {
		if l.value < 0 || l.value > l.most {
			return core.Bad(l.name, "is %d; must be from 0 (the default) to %d", l.value, l.most)
		}
	}
	if b := in.BufferBytes; b != 0 && (b < outbox.BufferMin || b > outbox.BufferMax) {
		return core.Bad("bufferBytes", "is %d; must be from %d to %d", b, outbox.BufferMin, outbox.BufferMax)
	}
	return nil
}

// hookTimeMax is the largest time of a hook, in ms: 30 days.
const hookTimeMax = 30 * 86_400_000

// deleteHook is DELETE /v1/hooks/{name}.
func (s *admin) deleteHook(c *core.Call) error {
	return s.CommitDone(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_DeleteHook{DeleteHook: &fsmpb.DeleteHook{Name: c.Name}}}, errNoHook)
}

// testHook is POST /v1/hooks/{name}/test.
func (s *admin) testHook(c *core.Call) error {
	res, err := s.Commit(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_TestHook{TestHook: &fsmpb.TestHook{Name: c.Name}}}, errNoHook)
	if err != nil {
		return err
	}
	lsn := c.Lsn
	if res.LSN != (fsm.LSN{}) {
		lsn = res.LSN // the first answer of a repeated request
	}
	id := outbox.EventID{Term: lsn.Term, Index: lsn.Index, N: uint32(res.Count)}
	return c.SendJSON(v1.HookTested{ID: id.String(), LSN: c.Lsn.String()})
}

// listHooks is GET /v1/hooks. There are few enough for one answer.
func (s *admin) listHooks(c *core.Call) error {
	v := c.View()
	out := v1.HookList{Hooks: []v1.Hook{}, LSN: c.Lsn.String()}
	for h := range v.Hooks {
		out.Hooks = append(out.Hooks, hookOf(v, h))
	}
	return c.SendJSON(out)
}

// showHook is GET /v1/hooks/{name}.
func (s *admin) showHook(c *core.Call) error {
	v := c.View()
	h := v.Hook(c.Name)
	if h == nil {
		return errNoHook
	}
	return c.SendJSON(hookOf(v, h))
}

// hookOf returns a webhook of a state as the API has it.
func hookOf(v *fsm.View, h *outbox.Hook) v1.Hook {
	out := hooks.Thresholds(h)
	out.Name, out.URL, out.On, out.Types, out.HTTP, out.Paused = h.Name, h.Url, outbox.Kinds(h.Kinds).Names(), h.Types, h.Plain, h.Paused
	out.SealedWith, out.OldSecretUntil, out.MadeBy = h.KeyId, h.OldUntilMs, h.MadeBy
	out.CreatedAt, out.UpdatedAt, out.Pending, out.PendingBytes = h.CreatedMs, h.UpdatedMs, h.Pending, h.Bytes
	out.Delivered, out.Failed, out.Dropped, out.DeliveredAt = h.Delivered, h.Failed, h.Dropped, h.DeliveredMs
	out.FailingSince, out.LastError = h.FailingSinceMs, h.LastError
	for e := range v.HookEvents(h.Name, outbox.EventID{}) {
		out.OldestAt = e.AtMs
		break
	}
	for _, a := range h.Alerts {
		out.Alerts = append(out.Alerts, v1.Alert{Rule: outbox.Kind(a.Kind).String(), Subject: a.Subject, Since: a.SinceMs, ID: outbox.AlertID(a).String()})
	}
	return out
}

// pendingShown is the number of events in an outbox that an answer has.
const pendingShown = 50

// hookDeliveries is GET /v1/hooks/{name}/deliveries. Only the leader knows its attempts.
func (s *admin) hookDeliveries(c *core.Call) error {
	v := c.View()
	if v.Hook(c.Name) == nil {
		return errNoHook
	}
	out := v1.HookDeliveries{Pending: []v1.HookEvent{}, Attempts: s.Hooks.Attempts(c.Name), LSN: c.Lsn.String()}
	for e := range v.HookEvents(c.Name, outbox.EventID{}) {
		if out.Pending = append(out.Pending, hooks.EventOf(e)); len(out.Pending) == pendingShown {
			break
		}
	}
	return c.SendJSON(out)
}
