package fsm

import (
	"errors"
	"strings"
	"unicode/utf8"

	"osqueue/fsm/fsmpb"
)

// Pause describes the pause of a type.
type Pause struct {
	Reason string // UTF-8, at most PauseTextMax bytes
	By     string // who paused it, the same
	Since  int64  // ms
	Until  int64  // ms, when the machine ends the pause; 0: never
}

// PauseTextMax is the largest length of Pause.Reason and of Pause.By, in bytes.
const PauseTextMax = 512

var errPause = errors.New("a pause has a text that is too long or not UTF-8, an invalid time, or a type that is not paused")

// checkPause checks the pause in a mutation.
func checkPause(op *fsmpb.SetQueue) error {
	p := op.GetPause()
	if p == nil {
		return nil
	}
	of := pauseFromPB(p)
	of.Since = 1 // the machine sets it
	return need(p.SinceMs == 0 && !op.Remove && of.valid(op.GetPaused()), errPause)
}

// valid reports whether a type that is paused, or is not, can have the pause p.
func (p Pause) valid(paused bool) bool {
	if p == (Pause{}) {
		return true
	}
	ok := func(text string) bool { return len(text) <= PauseTextMax && utf8.ValidString(text) }
	return paused && p.Since > 0 && p.Until >= 0 && ok(p.Reason) && ok(p.By)
}

func pauseToPB(p Pause) *fsmpb.Pause {
	if p == (Pause{}) {
		return nil
	}
	return &fsmpb.Pause{Reason: p.Reason, By: p.By, UntilMs: p.Until, SinceMs: p.Since}
}

func pauseFromPB(p *fsmpb.Pause) Pause {
	return Pause{Reason: p.GetReason(), By: p.GetBy(), Since: p.GetSinceMs(), Until: p.GetUntilMs()}
}

// pause sets, at the time now, whether a type is paused. A new pause of a paused type
// replaces the reason and the end, and keeps the beginning.
func (s *QueueSettings) pause(now int64, paused bool, op *fsmpb.Pause) {
	since := now
	if s.Paused && s.Pause.Since != 0 {
		since = s.Pause.Since
	}
	s.Paused, s.Pause = paused, Pause{}
	if op != nil {
		s.Pause = Pause{Reason: strings.Clone(op.Reason), By: strings.Clone(op.By), Since: since, Until: op.UntilMs}
	}
}

// resume ends the pause of a type whose end has come. The timer has been removed.
func (e *entry) resume(q *queue) {
	e.firings--
	q.resumeAt = 0
	s := *q.settings
	s.Paused, s.Pause = false, Pause{}
	e.types.useSettings(q, &s)
	e.events = append(e.events, Event{Kind: QueueSet, Name: q.name, Text: pauseEnded})
}

// The texts of the events about pauses that have a description.
const (
	pausedText  = "paused"
	resumedText = "resumed"
	pauseEnded  = "resumed: the end of the pause has come"
)

// pauseText returns the text of the event of a change of settings from was to s; each may be
// nil.
func pauseText(was, s *QueueSettings) string {
	var before, after Pause
	if was != nil {
		before = was.Pause
	}
	if s != nil {
		after = s.Pause
	}
	switch {
	case before == after:
		return ""
	case after == (Pause{}) && (s == nil || !s.Paused):
		return resumedText
	case after.Reason != "":
		return pausedText + ": " + after.Reason
	}
	return pausedText
}
