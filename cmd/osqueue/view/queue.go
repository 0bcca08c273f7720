package view

import (
	"strconv"
	"time"

	v1 "osqueue/client/api/v1"
)

// SettingRows returns the settings that differ from the default, by the names of their
// flags.
func SettingRows(s v1.QueueSettings) [][]string {
	paused := ""
	if s.Paused {
		paused = "yes"
	}
	return NonEmptyRows(
		[]string{"paused", paused},
		[]string{"max-running", countText(s.MaxRunning)},
		[]string{"max-running-per-group", countText(s.MaxRunningPerGroup)},
		[]string{"rate", RateText(s.RatePerSecond)},
		[]string{"burst", countText(s.Burst)},
		[]string{"lease", MsOrNone(s.LeaseMs)},
		[]string{"job-timeout", MsOrNone(s.TimeoutMs)},
		[]string{"max-attempts", pointed(s.MaxAttempts, countOf)},
		[]string{"backoff", BackoffText(s.Backoff)},
		[]string{"retain", pointed(s.RetainMs, MsText)},
		[]string{"retain-count", pointed(s.RetainCount, countOf)},
		[]string{"max-jobs", countText(s.MaxJobs)},
		[]string{"max-bytes", sizeOrNone(s.MaxBytes)},
		[]string{"max-payload", sizeOrNone(s.MaxPayload)},
	)
}

// PauseText describes the pause of a type in a few words; p may be nil.
func PauseText(p *v1.Pause) string {
	if p == nil || p.Until == 0 {
		return pauseText(p, "paused")
	}
	return pauseText(p, "paused until "+LocalTime(p.Until))
}

// PauseCell is PauseText for a narrow cell: the end of the pause is the time until then.
func PauseCell(p *v1.Pause, now time.Time) string {
	if p == nil || p.Until == 0 {
		return pauseText(p, "paused")
	}
	return pauseText(p, "paused for "+SpanText(max(time.UnixMilli(p.Until).Sub(now).Round(time.Minute), time.Minute)))
}

func pauseText(p *v1.Pause, text string) string {
	if p == nil {
		return text
	}
	if p.Reason != "" {
		text += " (" + PlainLine(p.Reason) + ")"
	}
	return text
}

// PauseRows returns what is known of the pause of a type; p may be nil.
func PauseRows(p *v1.Pause) [][]string {
	if p == nil {
		return nil
	}
	until := ""
	if p.Until != 0 {
		until = LocalTime(p.Until)
	}
	return NonEmptyRows(
		[]string{"paused since", LocalTime(p.Since)},
		[]string{"paused until", until},
		[]string{"paused by", p.By},
		[]string{"reason", p.Reason},
	)
}

func countOf(n int64) string { return strconv.FormatInt(n, 10) }

// countText formats a limit. It returns "" for none.
func countText(n int64) string {
	if n == 0 {
		return ""
	}
	return countOf(n)
}

func sizeOrNone(n int64) string {
	if n == 0 {
		return ""
	}
	return SizeText(n)
}

func pointed(n *int64, text func(int64) string) string {
	if n == nil {
		return ""
	}
	return text(*n)
}
