package view

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

func TestBackoffNotation(t *testing.T) {
	for text, want := range map[string]client.Backoff{
		"none":                   {Kind: v1.BackoffNone},
		"fixed:10s":              {Kind: v1.BackoffFixed, Base: 10 * time.Second},
		"linear:5s:1m":           {Kind: v1.BackoffLinear, Base: 5 * time.Second, Cap: time.Minute},
		"exponential:1s:1h:20%":  {Kind: v1.BackoffExponential, Base: time.Second, Cap: time.Hour, Jitter: 20},
		"exponential:500ms:100%": {Kind: v1.BackoffExponential, Base: 500 * time.Millisecond, Jitter: 100},
	} {
		got, err := ParseBackoff(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		wire := &v1.Backoff{Kind: want.Kind, BaseMs: want.Base.Milliseconds(), CapMs: want.Cap.Milliseconds(), Jitter: int64(want.Jitter)}
		if back := BackoffText(wire); back != text {
			t.Errorf("%s is shown as %s", text, back)
		}
	}
}

func TestUniqueNotation(t *testing.T) {
	for text, want := range map[string]client.Unique{
		"k":                {Key: "k"},
		"order:7":          {Key: "order:7"},
		"k:waiting":        {Key: "k", Scope: v1.UniqueWaiting},
		"a:b:active":       {Key: "a:b", Scope: v1.UniqueActive},
		"k:active:active":  {Key: "k:active", Scope: v1.UniqueActive},
		"a:b:period:1h30m": {Key: "a:b", Scope: v1.UniquePeriod, Period: 90 * time.Minute},
	} {
		if got, err := ParseUnique(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}

func TestTimesAndSizes(t *testing.T) {
	zone := time.FixedZone("here", 2*3600)
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, zone)
	for text, want := range map[string]time.Time{
		"2026-12-24T18:00:00Z": time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC),
		"2026-12-24 18:00":     time.Date(2026, 12, 24, 18, 0, 0, 0, zone),
		"2026-12-24":           time.Date(2026, 12, 24, 0, 0, 0, 0, zone),
		"90m":                  now.Add(90 * time.Minute),
		"2d":                   now.Add(48 * time.Hour),
		"1w":                   now.Add(7 * 24 * time.Hour),
		"1w1d12h":              now.Add((8*24 + 12) * time.Hour),
	} {
		if got, err := ParseTime(text, false, now); err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if got, err := ParseTime("1h", true, now); err != nil || !got.Equal(now.Add(-time.Hour)) {
		t.Errorf("an hour ago: %v, %v", got, err)
	}
	for text, want := range map[string]int64{"0": 0, "4096": 4096, "64KiB": 65536, "1.5GB": 1_500_000_000, "10 MiB": 10 << 20, "7B": 7} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for n, want := range map[int64]string{0: "0", 1023: "1023", 1024: "1KiB", 1536: "1.5KiB", 10<<20 + 5: "10MiB", 3 << 30: "3GiB"} {
		if got := SizeText(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	for text, want := range map[string]float64{"10/s": 10, "600/m": 10, "3600/h": 1, "0.5": 0.5} {
		if got, err := ParseRate(text); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "-1", "x", "NaN", "1PiB", "1e30", "-5KiB"} {
		if n, err := ParseSize(bad); err == nil {
			t.Errorf("%q is %d", bad, n)
		}
	}
}

// Commands accept the durations that they print.
func TestSpansCanBeTypedAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(maxSpanDays)*24*3600*1000).Draw(t, "ms")) * time.Millisecond
		unit := rapid.SampledFrom([]time.Duration{1, time.Second, time.Minute, time.Hour, 24 * time.Hour}).Draw(t, "unit")
		d = d.Truncate(unit)
		if back, err := ParseSpan(SpanText(d)); err != nil || back != d {
			t.Fatalf("%v is shown as %s, which is %v, %v", d, SpanText(d), back, err)
		}
	})
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		1234 * time.Microsecond:     "1ms",
		1234567 * time.Microsecond:  "1.23s",
		90*time.Second + 1234567:    "1m30s",
		75 * time.Hour:              "3d",
		25*time.Hour + time.Second:  "25h0m1s",
		time.Duration(0):            "0s",
		999_600 * time.Microsecond:  "1s",
		59_999 * time.Millisecond:   "1m0s",
		48*time.Hour - 1:            "48h0m0s",
		365 * 24 * 10 * time.Hour:   "3650d",
		time.Millisecond + 1:        "1ms",
		61 * time.Minute:            "1h1m0s",
		20*time.Second + 5000000000: "25s",
	} {
		if got := Short(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestShellWords(t *testing.T) {
	got := ShellWords([]string{"mail", "", "two words", "it's", "$HOME", "s3://b/p?region=x&a=b", "a_b-c.d/e:f"})
	want := `mail '' 'two words' 'it'\''s' '$HOME' 's3://b/p?region=x&a=b' a_b-c.d/e:f`
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
