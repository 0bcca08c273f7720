package fsm

import (
	"errors"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"osqueue/fsm/fsmpb"
)

// PauseTextMax is the largest length of the texts of a pause, in bytes.
const PauseTextMax = 512

var errPause = errors.New("a pause has a text that is too long or not UTF-8, an invalid time, or a type that is not paused")

// checkPause checks the pause in a mutation.
func checkPause(op *fsmpb.SetQueue) error {
	p := op.GetPause()
	if p == nil {
		return nil
	}
	of := fsmpb.Copy(p)
	of.SinceMs = 1 // the machine sets it
	return need(p.SinceMs == 0 && !op.Remove && validPause(of, op.GetPaused()), errPause)
}

// validPause reports whether a type that is paused, or is not, can have the pause p.
func validPause(p *fsmpb.Pause, paused bool) bool {
	if p == nil {
		return true
	}
	ok := func(text string) bool { return len(text) <= PauseTextMax && utf8.ValidString(text) }
	return paused && p.SinceMs > 0 && p.UntilMs >= 0 && ok(p.Reason) && ok(p.By)
}

// setPause sets, at the time now, whether a type is paused. A new pause of a paused type
// replaces the reason and the end, and keeps the beginning.
func setPause(s *QueueSettings, now int64, paused bool, op *fsmpb.Pause) {
	since := now
	if s.Paused && s.Pause.GetSinceMs() != 0 {
		since = s.Pause.SinceMs
	}
	s.Paused, s.Pause = paused, fsmpb.Clone(op)
	if op != nil {
		s.Pause.SinceMs = since
	}
}

// resume ends the pause of a type whose end has come. The timer has been removed.
func (e *entry) resume(q *queue) {
	e.firings--
	q.resumeAt = 0
	s := fsmpb.Copy(q.settings)
	s.Paused, s.Pause = false, nil
	e.types.useSettings(q, s)
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
	after := s.GetPause()
	switch {
	case proto.Equal(was.GetPause(), after):
		return ""
	case after == nil && !s.GetPaused():
		return resumedText
	case after.GetReason() != "":
		return pausedText + ": " + after.Reason
	}
	return pausedText
}
