package hooks

import (
	"cmp"
	"context"
	"fmt"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/figures"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/outbox"
)

// The thresholds of the rules of a hook without its own.
const (
	OldestAgeDefault      = 10 * time.Minute
	FailurePercentDefault = 50
	DeadGrewDefault       = 10
	LagDefault            = time.Minute
)

const (
	rulesEvery     = 5 * time.Second
	failureMinutes = 5
	failureLeast   = 20 // attempts below which a failure rate says nothing
	deadMinutes    = 10
	calmAfter      = 2 // evaluations
)

// rules evaluates the rules of all hooks. It belongs to the goroutine of Sender.Run.
type rules struct {
	s    *Sender
	node Node
	next time.Time
	calm map[alertKey]int // evaluations in which the condition of an alert that fires was false
}

type alertKey struct {
	hook, subject string
	kind          outbox.Kind
}

// condition is the condition of a rule that is true.
type condition struct {
	kind    outbox.Kind
	subject string
	value   int64
	text    string
}

func newRules(s *Sender, node Node) *rules {
	return &rules{s: s, node: node, calm: make(map[alertKey]int)}
}

// evaluate reports the alerts that begin or end, if it is time.
func (r *rules) evaluate(ctx context.Context, v *fsm.View) {
	now := time.Now()
	if now.Before(r.next) {
		return
	}
	r.next = now.Add(rulesEvery)
	wanted := outbox.Kinds(0)
	v.Hooks(func(h *outbox.Hook) bool { wanted |= outbox.Kinds(h.Kinds); return true })
	if wanted&ruleKinds == 0 {
		return
	}
	measured := r.measure(v)
	for h := range v.Hooks {
		if r.evaluateHook(ctx, h, measured); ctx.Err() != nil {
			return
		}
	}
}

// ruleKinds has the kinds of all rules.
var ruleKinds = outbox.Kinds(0).With(outbox.QueueStuck).With(outbox.QueueFailing).With(outbox.QueueDead).With(outbox.BucketLag)

// measure returns the values of all rules, for every type, in O(types).
func (r *rules) measure(v *fsm.View) (all []condition) {
	now := max(r.node.Now(), v.Now())
	for name := range r.node.AllTypeStats() {
		if q := v.Queue(name); q != nil && q.Paused {
			continue
		}
		if since, ok := v.OldestAvailable(name); ok && now > since {
			age := now - since
			all = append(all, condition{outbox.QueueStuck, name, age, fmt.Sprintf("the oldest available job has waited for %s", seconds(age))})
		}
	}
	v.Figures(func(f *fsm.Figures) bool {
		subject := f.Type
		if f.Shared {
			subject = fsm.FigureOther
		}
		all = append(all, ofHistory(f, subject, now)...)
		return true
	})
	if lag := r.node.LagMs(); lag > 0 {
		all = append(all, condition{outbox.BucketLag, "", lag, fmt.Sprintf("the oldest change that the bucket lacks is %s old", seconds(lag))})
	}
	return all
}

// ofHistory returns the values of the last minutes of a type.
func ofHistory(f *fsm.Figures, subject string, now int64) (all []condition) {
	var minutes [deadMinutes]figures.Minute
	f.History.AddTo(minutes[:], now/time.Minute.Milliseconds()-deadMinutes+1)
	var dead, completed, failed int64
	for i, m := range minutes {
		dead += int64(m.Dead)
		if i >= deadMinutes-failureMinutes {
			completed += int64(m.Completed)
			failed += int64(m.Failed)
		}
	}
	if ended := completed + failed; ended >= failureLeast && failed > 0 {
		text := fmt.Sprintf("%d of %d attempts failed in the last %d minutes", failed, ended, failureMinutes)
		all = append(all, condition{outbox.QueueFailing, subject, failed * 100 / ended, text})
	}
	if dead > 0 {
		all = append(all, condition{outbox.QueueDead, subject, dead, fmt.Sprintf("%d jobs became dead in the last %d minutes", dead, deadMinutes)})
	}
	return all
}

func seconds(ms int64) time.Duration {
	return (time.Duration(ms) * time.Millisecond).Round(time.Second)
}

// Thresholds fills in the defaults of a hook.
func Thresholds(h *outbox.Hook) v1.Hook {
	return v1.Hook{
		OldestAgeMs: cmp.Or(h.OldestAgeMs, OldestAgeDefault.Milliseconds()), FailurePercent: cmp.Or(h.FailurePercent, FailurePercentDefault),
		DeadGrew: cmp.Or(h.DeadGrew, DeadGrewDefault), LagMs: cmp.Or(h.LagMs, LagDefault.Milliseconds()),
		BufferBytes: h.Buffer(), RetryForMs: cmp.Or(h.RetryForMs, RetryForDefault.Milliseconds()),
	}
}

// threshold returns the value from which on a rule of a hook fires.
func threshold(limits *v1.Hook, k outbox.Kind) int64 {
	switch k {
	case outbox.QueueStuck:
		return limits.OldestAgeMs
	case outbox.QueueFailing:
		return limits.FailurePercent
	case outbox.QueueDead:
		return limits.DeadGrew
	case outbox.BucketLag:
		return limits.LagMs
	default:
		return 1 << 62
	}
}

func (r *rules) evaluateHook(ctx context.Context, h *outbox.Hook, measured []condition) {
	limits := Thresholds(h)
	holds := make(map[alertKey]bool)
	room := outbox.AlertsMax - len(h.Alerts)
	for _, c := range measured {
		if c.value < threshold(&limits, c.kind) || !h.Wants(c.kind, c.subject) {
			continue
		}
		key := alertKey{h.Name, c.subject, c.kind}
		holds[key] = true
		delete(r.calm, key)
		if _, fires := h.FindAlert(c.kind, c.subject); !fires && room > 0 {
			room--
			r.set(ctx, key, true, c.text)
		}
	}
	for _, a := range h.Alerts {
		key := alertKey{h.Name, a.Subject, outbox.Kind(a.Kind)}
		if holds[key] {
			continue
		}
		if r.calm[key]++; r.calm[key] >= calmAfter {
			delete(r.calm, key)
			r.set(ctx, key, false, "")
		}
	}
}

// set reports that an alert begins or ends. After an error the next evaluation repeats it.
func (r *rules) set(ctx context.Context, key alertKey, firing bool, text string) {
	limited, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	op := &fsmpb.SetAlert{Hook: key.hook, Kind: uint32(key.kind), Subject: key.subject, Firing: firing, Text: text}
	if _, _, err := r.node.Propose(limited, &fsmpb.Mutation{Op: &fsmpb.Mutation_SetAlert{SetAlert: op}}); err != nil {
		r.s.cfg.Log.Debug("cannot record an alert yet", "hook", key.hook, "rule", key.kind, "error", err)
	}
}
