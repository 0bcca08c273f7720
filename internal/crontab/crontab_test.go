package crontab

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

func at(t *testing.T, text, zone string) int64 {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	when, err := time.ParseInLocation("2006-01-02 15:04:05", text, loc)
	if err != nil {
		t.Fatal(err)
	}
	return when.UnixMilli()
}

func show(ms int64, zone string) string {
	if ms == 0 {
		return "never"
	}
	loc, _ := time.LoadLocation(zone)
	return time.UnixMilli(ms).In(loc).Format("2006-01-02 15:04:05 -0700")
}

func must(t testing.TB, spec, zone string) *Schedule {
	t.Helper()
	s, err := Parse(spec, zone)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNext(t *testing.T) {
	for _, c := range []struct{ spec, zone, after, want string }{
		{"30 4 * * 1-5", "", "2025-01-03 04:30:00", "2025-01-06 04:30:00 +0000"},
		{" 30 4 * * mon-FRI ", "", "2025-01-03 04:30:00", "2025-01-06 04:30:00 +0000"},
		{"*/15 * * * * *", "", "2025-01-03 04:30:00", "2025-01-03 04:30:15 +0000"},
		{"@daily", "Asia/Tokyo", "2025-01-03 00:00:00", "2025-01-04 00:00:00 +0900"},
		{"0 0 1,15 * 1", "", "2025-01-02 00:00:00", "2025-01-06 00:00:00 +0000"}, // either day
		{"0 0 29 2 *", "", "2025-01-01 00:00:00", "2028-02-29 00:00:00 +0000"},
		{"0 0 30 2 *", "", "2025-01-01 00:00:00", "never"},
		{"@every 5m", "Asia/Tokyo", "2025-01-01 00:07:03", "2025-01-01 00:10:00 +0900"},
		{"@every 1h30m", "", "1970-01-01 01:30:00", "1970-01-01 03:00:00 +0000"},
		{"@every 1.5s", "", "1970-01-01 00:00:01", "1970-01-01 00:00:01 +0000"},
		// The clocks go from 2:00 to 3:00.
		{"30 2 * * *", "Europe/Berlin", "2025-03-29 12:00:00", "2025-03-30 03:00:00 +0200"},
		{"30 2 * * *", "Europe/Berlin", "2025-03-30 03:00:00", "2025-03-31 02:30:00 +0200"},
		{"*/30 2 * * *", "Europe/Berlin", "2025-03-29 12:00:00", "2025-03-31 02:00:00 +0200"},
		{"@hourly", "Europe/Berlin", "2025-03-30 01:00:00", "2025-03-30 03:00:00 +0200"},
		// The clocks go back from 3:00 to 2:00.
		{"30 2 * * *", "Europe/Berlin", "2025-10-26 00:00:00", "2025-10-26 02:30:00 +0200"},
		{"0 3 * * *", "Europe/Berlin", "2025-10-26 01:00:00", "2025-10-26 03:00:00 +0100"},
		// Midnight does not exist on that day.
		{"0 0 * * *", "America/Sao_Paulo", "2018-11-03 12:00:00", "2018-11-04 01:00:00 -0200"},
		// A star does not restrict the day, nor does it with a step.
		{"0 0 */2 * 1", "", "2027-03-15 00:00:00", "2027-03-29 00:00:00 +0000"},
		{"0 0 15 * */2", "", "2027-03-01 00:00:00", "2027-04-15 00:00:00 +0000"},
		{"0 0 * * 7", "", "2027-03-15 00:00:00", "2027-03-21 00:00:00 +0000"},
		{"0 0 * * 5-7", "", "2027-03-20 00:00:00", "2027-03-21 00:00:00 +0000"},
		{"0\t0 *\t* 1", "", "2027-03-15 00:00:00", "2027-03-22 00:00:00 +0000"},
		{"5/20 * * * ?", "", "2027-03-15 00:46:00", "2027-03-15 01:05:00 +0000"},
	} {
		got := show(must(t, c.spec, c.zone).Next(at(t, c.after, c.zone)), c.zone)
		if got != c.want {
			t.Errorf("%q after %s: %s, want %s", c.spec, c.after, got, c.want)
		}
	}
}

func TestRepeatedHour(t *testing.T) {
	const zone = "Europe/Berlin"
	times := func(spec string) (got []string) {
		s := must(t, spec, zone)
		for ms := at(t, "2025-10-26 01:59:59", zone); len(got) < 3; {
			ms = s.Next(ms)
			got = append(got, show(ms, zone)[11:])
		}
		return got
	}
	for spec, want := range map[string]string{
		"30 2 * * *":    "02:30:00 +0200 02:30:00 +0100 02:30:00 +0100", // that day, and the next two
		"30 * * * *":    "02:30:00 +0200 02:30:00 +0100 03:30:00 +0100",
		"*/20 2 * * *":  "02:00:00 +0200 02:20:00 +0200 02:40:00 +0200",
		"*/40 2 * * *":  "02:00:00 +0200 02:40:00 +0200 02:00:00 +0100",
		"0 0 2,3 * * *": "02:00:00 +0200 03:00:00 +0100 02:00:00 +0100",
	} {
		if got := strings.Join(times(spec), " "); got != want {
			t.Errorf("%q: %s, want %s", spec, got, want)
		}
	}
}

func TestNextAtTheEdges(t *testing.T) {
	for _, spec := range []string{"@every 1s", "* * * * * *"} {
		s := must(t, spec, "")
		if got := s.Next(-5); got != 1000 {
			t.Errorf("%q before 1970: %d", spec, got)
		}
		if got := s.Next(1<<63 - 1); got != 0 {
			t.Errorf("%q at the end of time: %d", spec, got)
		}
	}
	if got := new(Schedule).Next(1); got != 0 {
		t.Errorf("the zero schedule comes at %d", got)
	}
}

func TestParseRefuses(t *testing.T) {
	for spec, says := range map[string]string{
		"":                             "empty",
		"   ":                          "empty",
		"* * * *":                      "4 fields",
		"* * * * * * *":                "7 fields",
		"60 * * * *":                   "minute \"60\"",
		"* * * * 8":                    "day of week",
		"* * * * sat-sun":              "ends before",
		"5-:1 * * * *":                 "minute",
		"*/x * * * *":                  "step",
		"* * * jan-tue *":              "month",
		"* 24 * * *":                   "hour",
		"* * 0 * *":                    "day of month",
		"* * * foo *":                  "month",
		"61 * * * * *":                 "second",
		", * * * *":                    "comma",
		"1,,2 * * * *":                 "comma",
		"*-5 * * * *":                  "range",
		"5-1 * * * *":                  "minute",
		"*/0 * * * *":                  "step",
		"TZ=Europe/Berlin * * * * *":   "time zone",
		" CRON_TZ=UTC 0 0 * * *":       "time zone",
		"TZ=x":                         "time zone",
		"@every":                       "duration",
		"@every5m":                     "duration",
		"@every x":                     "duration",
		"@every -5m":                   "duration",
		"@every 10ms":                  "duration",
		"@every 1s1us":                 "milliseconds",
		"@every 100000h":               "duration",
		"@reboot":                      "not known",
		"* * * *\n*":                   "visible",
		"* * * * ü":                    "visible",
		strings.Repeat("*", SpecMax+1): "more than",
	} {
		_, err := Parse(spec, "")
		if !errors.Is(err, ErrSpec) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want one that says %q", spec, err, says)
		}
	}
	for _, zone := range []string{
		"Nowhere/Land", "Local", "../etc/passwd", "/Europe/Berlin", "Europe//Berlin", "Europe/Berlin/", "Europe/./Berlin",
		"Europe/Berlin\x00", strings.Repeat("x", ZoneMax+1),
	} {
		if _, err := Parse("* * * * *", zone); !errors.Is(err, ErrZone) {
			t.Errorf("zone %q: %v", zone, err)
		}
	}
}

func TestLatest(t *testing.T) {
	const day = 24 * 3600 * 1000
	due := at(t, "2025-10-20 12:00:00", "")
	for _, c := range []struct {
		spec   string
		now    int64
		at     int64
		missed uint64
	}{
		{"* * * * * *", due, due, 0},
		{"* * * * * *", due + 999, due, 0},
		{"* * * * * *", due + 1000, due + 1000, 1},
		{"* * * * * *", due + 5999, due + 5000, 5},
		{"* * * * * *", due + 7*day + 1, due + 7*day, MissedMax},
		{"@every 1s", due + 7*day + 1, due + 7*day, 7 * 24 * 3600},
		{"@every 7s", due, due, 0},
		{"0 12 * * *", due + 7*day - 1, due + 6*day, 6},
	} {
		got, missed := must(t, c.spec, "").Latest(due, due, c.now)
		if got != c.at || missed != c.missed {
			t.Errorf("%q at +%d ms: +%d ms and %d missed, want +%d and %d", c.spec, c.now-due, got-due, missed, c.at-due, c.missed)
		}
	}
}

// The latest time must be the one that stepping finds.
func TestLatestIsWhatSteppingFinds(t *testing.T) {
	for _, spec := range []string{"* * 3 * * *", "*/7 1-3 * * *", "30 2 * * 0", "@hourly", "@every 17m", "0 0 31 * *"} {
		s := must(t, spec, "Europe/Berlin")
		due := s.Next(at(t, "2025-10-24 00:00:00", "Europe/Berlin"))
		for now := due; now < due+4*24*3600*1000; now += 1_234_567 {
			want, count := due, uint64(0)
			for next := s.Next(want); next != 0 && next <= now; next = s.Next(next) {
				want, count = next, count+1
			}
			if s.every == 0 {
				count = min(count, MissedMax)
			}
			if got, missed := s.Latest(due, due, now); got != want || missed != count {
				t.Fatalf("%q by %s: %s and %d missed, want %s and %d", spec, show(now, ""), show(got, ""), missed, show(want, ""), count)
			}
		}
	}
}

// Times that a change of the clocks leaves out count as missed, at the next time.
func TestLostTimesAreMissed(t *testing.T) {
	for _, c := range []struct {
		spec, zone, since string
		missed            uint64
	}{
		{"30 2 * * *", "Europe/Berlin", "2025-03-29 02:30:00", 0},
		{"15,30 2 * * *", "Europe/Berlin", "2025-03-29 02:30:00", 1},
		{"0 2,3 * * *", "Europe/Berlin", "2025-03-29 03:00:00", 1},
		{"*/20 2 * * *", "Europe/Berlin", "2025-03-29 02:40:00", 3},
		{"*/20 2 * * *", "Europe/Berlin", "2025-03-30 04:00:00", 0}, // it was put after the change
		{"*/20 * * * *", "Europe/Berlin", "2025-03-30 01:40:00", 0},
		{"30 2 * * *", "Europe/Berlin", "2025-10-25 02:30:00", 0},
		{"0 12 * * *", "Pacific/Apia", "2011-12-29 12:00:00", 1}, // the 30th was left out
		{"*/10 * * * * *", "Pacific/Apia", "2011-12-29 23:59:50", 0},
		{"0-59 0-59 2 * * *", "Europe/Berlin", "2025-03-29 02:59:59", MissedMax},
	} {
		s := must(t, c.spec, c.zone)
		since := at(t, c.since, c.zone)
		due := s.Next(since)
		if got, missed := s.Latest(since, due, due); got != due || missed != c.missed {
			t.Errorf("%q after %s: %s and %d missed, want %s and %d", c.spec, c.since, show(got, c.zone), missed, show(due, c.zone), c.missed)
		}
	}
}

// The times are those of cron, which testdata/cron.py simulates minute by minute. Where cron
// runs a job several times in one minute, a schedule has one time, and the others count
// as missed.
func TestCronTable(t *testing.T) {
	data, err := os.ReadFile("testdata/cron.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if line[0] == '#' {
			continue
		}
		f := strings.Split(strings.TrimSpace(line), "|")
		s := must(t, f[1], f[0])
		first, minutes := number(t, f[2]), number(t, f[3])
		runs := runsOf(t, f[4])
		last := int64(-1)
		for ms := s.Next(first*60_000 - 1); ms != 0 && ms < (first+minutes)*60_000; ms = s.Next(ms) {
			minute := ms/60_000 - first
			want, ok := runs[minute]
			if ms%60_000 != 0 || !ok {
				t.Errorf("%s: %q has a time in minute %d (%s) and cron has none", f[0], f[1], minute, show(ms, f[0]))
			}
			if _, missed := s.Latest(max(first*60_000-1, (first+last)*60_000), ms, ms); want > 1 && missed != want-1 {
				t.Errorf("%s: %q in minute %d: %d missed, cron runs it %d times", f[0], f[1], minute, missed, want)
			}
			delete(runs, minute)
			last = minute
		}
		for minute, n := range runs {
			t.Errorf("%s: %q has no time in minute %d (%s) and cron runs it %d times", f[0], f[1], minute, show((first+minute)*60_000, f[0]), n)
		}
	}
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// runsOf reads the runs of a line of the table: by minute, how many.
func runsOf(t *testing.T, text string) map[int64]uint64 {
	t.Helper()
	runs := make(map[int64]uint64)
	for part := range strings.FieldsSeq(text) {
		if span, step, ok := strings.Cut(part, "/"); ok {
			low, high, _ := strings.Cut(span, "-")
			for m := number(t, low); m <= number(t, high); m += number(t, step) {
				runs[m] = 1
			}
			continue
		}
		minute, times, many := strings.Cut(part, "x")
		runs[number(t, minute)] = 1
		if many {
			runs[number(t, minute)] = uint64(number(t, times))
		}
	}
	return runs
}

// In every zone a schedule must go on over the changes of its clocks, and come
// at the times that its fields say.
func TestNextGoesOnInOddZones(t *testing.T) {
	for _, zone := range []string{
		"Europe/Berlin", "America/New_York", "America/Sao_Paulo", "America/Havana", "Australia/Lord_Howe", "Asia/Beirut",
		"Africa/Cairo", "Pacific/Apia", "Antarctica/Troll", "Asia/Gaza", "America/Scoresbysund", "Africa/Monrovia",
	} {
		for _, spec := range []string{"30 2 * * *", "0 0 * * *", "15,45 0-3 * * *", "0 1 1 * *", "*/10 23 * * 6"} {
			s := must(t, spec, zone)
			ms := at(t, "2011-01-01 00:00:00", "")
			for range 400 { // beyond leap years that are reckoned by a rule
				next := s.Next(ms)
				if next <= ms {
					t.Fatalf("%s: %q after %s: %s", zone, spec, show(ms, zone), show(next, zone))
				}
				when := time.UnixMilli(next).In(s.zone)
				fits := s.clock.minute&(1<<when.Minute()) != 0 && s.clock.hour&(1<<when.Hour()) != 0 && when.Second() == 0
				if st := s.stretchAt(next / 1000); !fits && (next/1000 != st.start || st.skipped() <= 0) {
					t.Fatalf("%s: %q comes at %s", zone, spec, show(next, zone))
				}
				ms = next
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, spec := range []string{"30 4 * * 1-5", "@every 5m", "*/15 * * * * *", "@daily", "0 0 30 2 *", "TZ=0", "5/9 1-4/2 ? JAN-mar sun"} {
		f.Add(spec, "Europe/Berlin", int64(1_760_000_000_000))
	}
	f.Fuzz(func(t *testing.T, spec, zone string, after int64) {
		s, err := Parse(spec, zone)
		if err != nil {
			if !errors.Is(err, ErrSpec) && !errors.Is(err, ErrZone) {
				t.Fatalf("%v is of no kind", err)
			}
			return
		}
		start := time.Now()
		first := s.Next(after)
		if first == 0 {
			return
		}
		if first <= after {
			t.Fatalf("%d after %d", first, after)
		}
		now := first + 40*24*3600*1000
		last, missed := s.Latest(first, first, now)
		if last < first || last > now || missed == 0 && last != first {
			t.Fatalf("latest of %d by %d: %d, %d missed", first, now, last, missed)
		}
		if next := s.Next(last); next != 0 && next <= now {
			t.Fatalf("%d is not the latest by %d: %d is", last, now, next)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Fatalf("it took %s", took)
		}
	})
}

func TestTimeOfID(t *testing.T) {
	for _, at := range []int64{0, 1, 1_795_271_090_000, 1<<48 - 1} {
		id, err := NewID(at)
		if err != nil {
			t.Fatal(err)
		}
		if other, _ := NewID(at); other == id {
			t.Errorf("%s twice", id)
		}
		if got, ok := TimeOfID(id); got != at || !ok {
			t.Errorf("the time of %s is %d, %v, want %d", id, got, ok, at)
		}
	}
	for _, id := range []string{"", "report-1", "01a1fe7e-df69-7e8f-8989-a164e3cc47c5", "01a1fe7e-df69-8e8f-0989-a164e3cc47c5"} {
		if at, ok := TimeOfID(id); ok {
			t.Errorf("%q has the time %d", id, at)
		}
	}
}

// Bounds leave the times of a spec as they are, from start on and before end.
func TestWithin(t *testing.T) {
	hour := func(n int64) int64 { return at(t, "2027-06-01 00:00:00", "") + n*3600_000 }
	for _, spec := range []string{"@hourly", "@every 1h"} {
		s := must(t, spec, "").Within(hour(5), hour(9))
		for after, want := range map[int64]int64{
			hour(0): hour(5), hour(5) - 1: hour(5), hour(5): hour(6), hour(7) + 1: hour(8), hour(8): 0, hour(9): 0, hour(20): 0,
		} {
			if got := s.Next(after); got != want {
				t.Errorf("%s: the time after %s is %s, want %s", spec, show(after, ""), show(got, ""), show(want, ""))
			}
		}
		for now, want := range map[int64]int64{hour(5): hour(5), hour(7) + 5: hour(7), hour(8) + 5: hour(8), hour(9): hour(8), hour(20): hour(8)} {
			if got, missed := s.Latest(hour(0), hour(5), now); got != want || missed != uint64(want-hour(5))/3600_000 {
				t.Errorf("%s: the latest time by %s is %s with %d missed, want %s", spec, show(now, ""), show(got, ""), missed, show(want, ""))
			}
		}
		if got := must(t, spec, "").Within(hour(5)+1, 0).Next(0); got != hour(6) {
			t.Errorf("%s: the first time from 5:00:00.001 on is %s, want 6:00", spec, show(got, ""))
		}
		if got := must(t, spec, "").Within(hour(5), hour(5)).Next(0); got != 0 {
			t.Errorf("%s: it has the time %s, and ends when it starts", spec, show(got, ""))
		}
	}
	// The search begins at the start.
	leap := must(t, "0 0 29 2 *", "")
	if start := at(t, "2040-01-01 00:00:00", ""); leap.Within(start, 0).Next(0) != leap.Next(start) || leap.Next(start) == 0 {
		t.Error("a schedule that starts in 2040 has no time")
	}
}
