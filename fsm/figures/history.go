package figures

import (
	"encoding/binary"
	"math"
	"strings"
)

const (
	// HistoryMinutes is the number of minutes whose figures are kept: a day.
	HistoryMinutes = 24 * 60

	// MinuteMs is the length of a minute, in ms.
	MinuteMs = 60_000
)

// Minute has the figures of one type in one minute.
type Minute struct {
	Enqueued  uint32
	Claimed   uint32
	Completed uint32
	Failed    uint32
	Retried   uint32
	Dead      uint32
}

func (m *Minute) add(o Minute) {
	m.Enqueued += o.Enqueued
	m.Claimed += o.Claimed
	m.Completed += o.Completed
	m.Failed += o.Failed
	m.Retried += o.Retried
	m.Dead += o.Dead
}

// History has the figures of the minutes of the last day in which something happened. Only
// the newest minute changes. The others are packed, which takes 7 bytes for a minute with
// less than 128 of everything and 37 at most: 10 to 53 KB for a type that is always busy.
// Text shares its bytes with its copies, so a copy of a history costs nothing.
type History struct {
	past   string // minutes before openAt, oldest first (appendMinute)
	first  int64  // number since 1970 of the first minute of past
	last   int64  // number of the last minute of past
	open   Minute
	openAt int64 // number of open
}

// At returns the minute of a time in ms, or the newest one if that is later, to be written.
func (h *History) At(now int64) *Minute {
	if number := now / MinuteMs; number > h.openAt {
		h.seal()
		h.openAt = number
		h.Trim(now)
	}
	return &h.open
}

// seal packs the newest minute.
func (h *History) seal() {
	if h.open == (Minute{}) {
		return
	}
	if h.past == "" {
		h.first, h.last = h.openAt, h.openAt
	}
	h.past += string(appendMinute(nil, h.openAt-h.last, &h.open))
	h.last, h.open = h.openAt, Minute{}
}

// Empty reports whether there is no minute in which something happened.
func (h *History) Empty() bool { return h.past == "" && h.open == (Minute{}) }

// oldestKept returns the number of the oldest minute that is kept at a time in ms.
func oldestKept(now int64) int64 { return now/MinuteMs - HistoryMinutes + 1 }

// Stale reports whether there is a minute that is too old at a time in ms, or none at all.
func (h *History) Stale(now int64) bool {
	oldest := oldestKept(now)
	return h.past != "" && h.first < oldest || h.open != (Minute{}) && h.openAt < oldest || h.Empty()
}

// Trim drops the minutes that are too old at a time in ms.
func (h *History) Trim(now int64) {
	oldest := oldestKept(now)
	if h.open != (Minute{}) && h.openAt < oldest {
		h.open = Minute{}
	}
	cut := 0
	for at := h.first; at < oldest && cut < len(h.past); {
		_, _, size := readMinute(h.past[cut:])
		if cut += size; cut < len(h.past) {
			gap, _, _ := readMinute(h.past[cut:])
			at += gap
			h.first = at
		}
	}
	if h.past = h.past[cut:]; h.past == "" {
		h.first, h.last = 0, 0
		return
	}
	if cut > 0 { // the gap before the first minute is 0
		_, m, size := readMinute(h.past)
		h.past = string(appendMinute(nil, 0, &m)) + h.past[size:]
	}
}

// each calls fn for the minutes, oldest first.
func (h *History) each(fn func(number int64, m Minute)) {
	at := h.first
	for rest := h.past; rest != ""; {
		gap, m, size := readMinute(rest)
		at += gap
		rest = rest[size:]
		fn(at, m)
	}
	if h.open != (Minute{}) {
		fn(h.openAt, h.open)
	}
}

// AddTo adds the figures of the minutes from the one with number from on, one to each
// element of out.
func (h *History) AddTo(out []Minute, from int64) {
	h.each(func(number int64, m Minute) {
		if i := number - from; i >= 0 && i < int64(len(out)) {
			out[i].add(m)
		}
	})
}

// appendMinute appends a minute, gap minutes after the one before, as unsigned varints.
func appendMinute(out []byte, gap int64, m *Minute) []byte {
	out = binary.AppendUvarint(out, uint64(gap))
	for _, n := range [...]uint32{m.Enqueued, m.Claimed, m.Completed, m.Failed, m.Retried, m.Dead} {
		out = binary.AppendUvarint(out, uint64(n))
	}
	return out
}

// readMinute reads the first minute of text; size is 0 if there is none.
func readMinute(text string) (gap int64, m Minute, size int) {
	var n [7]uint64
	for i := range n {
		var width int
		n[i], width = uvarint(text[size:])
		if width == 0 || i > 0 && n[i] > math.MaxUint32 {
			return 0, Minute{}, 0
		}
		size += width
	}
	return int64(n[0]), Minute{uint32(n[1]), uint32(n[2]), uint32(n[3]), uint32(n[4]), uint32(n[5]), uint32(n[6])}, size
}

// uvarint is binary.Uvarint for text; width is 0 for an invalid number.
func uvarint(text string) (n uint64, width int) {
	for i := 0; i < len(text) && i < binary.MaxVarintLen64; i++ {
		b := text[i]
		n |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return n, i + 1
		}
	}
	return 0, 0
}

// Pack returns the history as text for a document or a snapshot, "" for an empty one: the
// number of the first minute, and the minutes.
func (h *History) Pack() string {
	packed := *h
	packed.seal()
	if packed.past == "" {
		return ""
	}
	return string(binary.AppendUvarint(nil, uint64(packed.first))) + packed.past
}

// minuteMax is the largest number of a minute, so that its time in ms is a valid time.
const minuteMax = math.MaxInt64 / MinuteMs

// UnpackHistory reads the text of Pack. The newest minute is the open one. It keeps a copy of the
// text.
func UnpackHistory(text string) (h History, err error) {
	text = strings.Clone(text)
	if text == "" {
		return h, nil
	}
	first, size := uvarint(text)
	if size == 0 || size == len(text) || first > minuteMax {
		return History{}, errHistory
	}
	var last Minute
	n, at, start := 0, int64(first), size
	for size < len(text) {
		gap, m, width := readMinute(text[size:])
		if width == 0 || gap < 0 || gap > HistoryMinutes || (n == 0) != (gap == 0) || m == (Minute{}) || at > minuteMax-gap || n >= HistoryMinutes {
			return History{}, errHistory
		}
		if n > 0 {
			h.past, h.last = text[start:size], at
		}
		at += gap
		size += width
		last = m
		n++
	}
	if h.past != "" {
		h.first = int64(first)
	}
	h.open, h.openAt = last, at
	if h.Pack() != text {
		return History{}, errHistory
	}
	return h, nil
}
