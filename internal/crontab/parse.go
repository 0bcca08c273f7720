package crontab

import (
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // for systems without

	"github.com/robfig/cron/v3"
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

var parser = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

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
	errSpecText = errors.New("use visible ASCII characters and spaces only")
	errNoSpec   = errors.New("it is empty; write minute, hour, day of month, month and day of week, for example \"30 4 * * 1-5\"")
	errTZ       = errors.New("it names a time zone; use the separate field for the time zone")
)

func parse(spec string, loc *time.Location) (*Schedule, error) {
	spec = strings.Trim(spec, " ")
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
	if err := checkFields(spec); err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(spec)
	if err != nil {
		return nil, err
	}
	times, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("%q is not allowed", spec)
	}
	times.Location = time.UTC // Schedule puts the zone's clocks on top
	return &Schedule{clock: times, zone: loc}, nil
}

func visible(s string) bool {
	for _, r := range s {
		if r < ' ' || r > '~' {
			return false
		}
	}
	return true
}

func parseEvery(given string) (*Schedule, error) {
	d, err := time.ParseDuration(strings.Trim(given, " "))
	switch {
	case err != nil || !strings.HasPrefix(given, " "):
		return nil, errors.New("write @every with a space and a duration, for example \"@every 1h30m\"")
	case d < everyLow || d > everyHigh:
		return nil, fmt.Errorf("the duration of @every must be from %s to %s", everyLow, everyHigh)
	case d%time.Millisecond != 0:
		return nil, errors.New("the duration of @every must be in whole milliseconds")
	}
	return &Schedule{every: d.Milliseconds()}, nil
}

var fieldNames = [...]string{"second", "minute", "hour", "day of month", "month", "day of week"}

// checkFields checks each field by itself, so that the error names the wrong one. It
// refuses fields that the parser would accept with an unintended meaning.
func checkFields(spec string) error {
	if spec[0] == '@' {
		return nil
	}
	fields := strings.Fields(spec)
	if len(fields) == len(fieldNames)-1 {
		fields = append([]string{"0"}, fields...)
	}
	if len(fields) != len(fieldNames) {
		return fmt.Errorf("it has %d fields; write five (minute, hour, day of month, month, day of week), "+
			"or six with the second in front", len(fields))
	}
	for i, f := range fields {
		if err := checkField(i, f); err != nil {
			return fmt.Errorf("%s %q: %w", fieldNames[i], f, err)
		}
	}
	return nil
}

var (
	errEmptyPart = errors.New("a comma needs a value on both sides")
	errStarRange = errors.New("a range cannot begin with * or ?")
)

func checkField(i int, field string) error {
	for part := range strings.SplitSeq(field, ",") {
		if part == "" {
			return errEmptyPart
		}
		if strings.HasPrefix(part, "*-") || strings.HasPrefix(part, "?-") {
			return errStarRange
		}
	}
	alone := [len(fieldNames)]string{"*", "*", "*", "*", "*", "*"}
	alone[i] = field
	_, err := parser.Parse(strings.Join(alone[:], " "))
	return err
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
