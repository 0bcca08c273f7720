package crontab

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // for systems without
)

// The longest spec and name of a zone, in bytes.
const (
	SpecMax = 256
	ZoneMax = 64
)

// The shortest and the longest interval of "@every".
const (
	everyLow  = time.Second
	everyHigh = 5 * 366 * 24 * time.Hour
)

var (
	// ErrSpec is wrapped by Parse when the spec is at fault.
	ErrSpec = errors.New("spec")
	// ErrZone is wrapped by Parse when the time zone is at fault.
	ErrZone = errors.New("time zone")
)

// Parse reads a spec. The zone is an IANA name; "" is UTC. The error wraps
// ErrSpec or ErrZone and says what to write instead.
func Parse(spec, timeZone string) (*Schedule, error) {
	loc, err := zone(timeZone)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrZone, err)
	}
	s, err := parse(spec, loc)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSpec, err)
	}
	return s, nil
}

var (
	errSpecLong = fmt.Errorf("it has more than %d bytes", SpecMax)
	errSpecText = errors.New("use visible ASCII characters, spaces and tabs only")
	errNoSpec   = errors.New("it is empty; write minute, hour, day of month, month and day of week, for example \"30 4 * * 1-5\"")
	errTZ       = errors.New("it names a time zone; use the separate field for the time zone")
)

// descriptors are the specs that have a name.
var descriptors = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

func parse(spec string, loc *time.Location) (*Schedule, error) {
	spec = strings.Trim(spec, " \t")
	switch {
	case len(spec) > SpecMax:
		return nil, errSpecLong
	case spec == "":
		return nil, errNoSpec
	case !visible(spec):
		return nil, errSpecText
	case strings.HasPrefix(spec, "TZ=") || strings.HasPrefix(spec, "CRON_TZ="):
		return nil, errTZ
	}
	if given, ok := strings.CutPrefix(spec, "@every"); ok {
		return parseEvery(given)
	}
	if spec[0] == '@' {
		fields, ok := descriptors[spec]
		if !ok {
			return nil, fmt.Errorf("%q is not known; write @yearly, @monthly, @weekly, @daily, @hourly or @every with a duration", spec)
		}
		spec = fields
	}
	clock, err := parseFields(strings.Fields(spec))
	if err != nil {
		return nil, err
	}
	return &Schedule{clock: clock, zone: loc}, nil
}

func visible(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r != '\t' && (r < ' ' || r > '~') })
}

func parseEvery(given string) (*Schedule, error) {
	d, err := time.ParseDuration(strings.Trim(given, " \t"))
	switch {
	case err != nil || given[0] != ' ' && given[0] != '\t':
		return nil, errors.New("write @every with a space and a duration, for example \"@every 1h30m\"")
	case d < everyLow || d > everyHigh:
		return nil, fmt.Errorf("the duration of @every must be from %s to %s", everyLow, everyHigh)
	case d%time.Millisecond != 0:
		return nil, errors.New("the duration of @every must be in whole milliseconds")
	}
	return &Schedule{every: d.Milliseconds()}, nil
}

// fieldOf describes one field of a spec.
type fieldOf struct {
	name      string
	low, high int
	names     []string // of the values from low on
}

var fields = [...]fieldOf{
	{name: "second", high: 59},
	{name: "minute", high: 59},
	{name: "hour", high: 23},
	{name: "day of month", low: 1, high: 31},
	{name: "month", low: 1, high: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of week", high: 6, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

const sunday = 7 // the other number of Sunday, 0 being the first

func parseFields(given []string) (*clock, error) {
	if len(given) == len(fields)-1 {
		given = append([]string{"0"}, given...)
	}
	if len(given) != len(fields) {
		return nil, fmt.Errorf("it has %d fields; write five (minute, hour, day of month, month, day of week), "+
			"or six with the second in front", len(given))
	}
	var sets [len(fields)]uint64
	var star [len(fields)]bool
	for i, text := range given {
		set, err := fields[i].parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", fields[i].name, text, err)
		}
		sets[i], star[i] = set, text[0] == '*' || text[0] == '?'
	}
	return &clock{
		second: sets[0], minute: sets[1], hour: sets[2], day: sets[3], month: sets[4], weekday: sets[5],
		both: star[3] || star[5],
		wild: star[0] || star[1] || star[2],
	}, nil
}

var (
	errEmptyPart = errors.New("a comma needs a value on both sides")
	errStarRange = errors.New("a range cannot begin with * or ?")
	errStep      = errors.New("the step after / must be a positive number")
)

// parse returns the set of the values of a field, a bit for each.
func (f fieldOf) parse(text string) (set uint64, err error) {
	for part := range strings.SplitSeq(text, ",") {
		low, high, step, err := f.parseRange(part)
		if err != nil {
			return 0, err
		}
		for v := low; v <= high; v += step {
			set |= 1 << v
		}
	}
	if f.high == sunday-1 && set&(1<<sunday) != 0 {
		set = set&^(1<<sunday) | 1
	}
	return set, nil
}

// parseRange reads "*", a value, or a range, each with or without a step. A value with a
// step begins a range that ends with the field.
func (f fieldOf) parseRange(text string) (low, high, step int, err error) {
	text, by, stepped := strings.Cut(text, "/")
	first, last, ranged := strings.Cut(text, "-")
	switch first {
	case "":
		return 0, 0, 0, errEmptyPart
	case "*", "?":
		if ranged {
			return 0, 0, 0, errStarRange
		}
		low, high = f.low, f.high
	default:
		if low, err = f.value(first); err != nil {
			return 0, 0, 0, err
		}
		high = low
		if ranged {
			high, err = f.value(last)
		} else if stepped {
			high = max(low, f.high)
		}
		if err == nil && high < low {
			err = fmt.Errorf("the range %s-%s ends before it begins", first, last)
		}
		if err != nil {
			return 0, 0, 0, err
		}
	}
	step = 1
	if stepped {
		if step, err = strconv.Atoi(by); err != nil || step <= 0 {
			return 0, 0, 0, errStep
		}
	}
	return low, high, min(step, f.high+1), nil
}

func (f fieldOf) value(text string) (int, error) {
	if i := slices.Index(f.names, strings.ToLower(text)); i >= 0 {
		return f.low + i, nil
	}
	high := f.high
	if high == sunday-1 {
		high = sunday
	}
	if n, err := strconv.ParseUint(text, 10, 8); err == nil && int(n) >= f.low && int(n) <= high {
		return int(n), nil
	}
	if len(f.names) > 0 {
		return 0, fmt.Errorf("%q is not a number from %d to %d or a name from %s to %s", text, f.low, high, f.names[0], f.names[len(f.names)-1])
	}
	return 0, fmt.Errorf("%q is not a number from %d to %d", text, f.low, high)
}

var errZoneName = errors.New("it is not known; write an IANA name, for example Europe/Berlin, or nothing for UTC")

// zone finds a zone. Its name must have one spelling only, and mean the same on
// every node: no paths, and not the node's own zone.
func zone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	if len(name) > ZoneMax {
		return nil, fmt.Errorf("it has more than %d bytes", ZoneMax)
	}
	if name == "Local" || strings.Contains(name, "//") || strings.Trim(name, "/") != name || !zoneLetters(name) {
		return nil, fmt.Errorf("%q: %w", name, errZoneName)
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", name, errZoneName)
	}
	return loc, nil
}

// leapZones are the directories and the file of the IANA database whose zones other machines
// may lack. The zones of "right" count leap seconds: their times are 27 s away from all others.
var leapZones = []string{"right/", "posix/", "posixrules"}

// CheckNew returns an error that wraps ErrZone for a zone that a new schedule must not have.
// Schedules that have it already keep it.
func CheckNew(timeZone string) error {
	for _, prefix := range leapZones {
		if strings.HasPrefix(timeZone, prefix) {
			return fmt.Errorf("%w: %q: not every machine has it, or it counts leap seconds; write the name without %s, for example Europe/Berlin",
				ErrZone, timeZone, prefix)
		}
	}
	return nil
}

func zoneLetters(name string) bool {
	for _, r := range name {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		case r == '/' || r == '_' || r == '-' || r == '+':
		default:
			return false
		}
	}
	return true
}
