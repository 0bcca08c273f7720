package cost

import (
	"strings"
	"testing"
)

// TestPublishedFigures holds the arithmetic against sums that were worked out by
// hand, of S3.
func TestPublishedFigures(t *testing.T) {
	const monthSeconds = 30 * 24 * 3600
	s3 := DefaultPrices("s3")
	for _, c := range []struct {
		what string
		use  Counts
		want string
	}{
		{"30 writes a minute for 30 days", Counts{Replaces: 30 * 60 * 24 * 30}, "$6.48"},
		{"a flush each second", Counts{Replaces: monthSeconds}, "$12.96"},
		{"a flush each 200 ms", Counts{Replaces: 5 * monthSeconds}, "$64.80"},
		{"a flush each 50 ms", Counts{Replaces: 20 * monthSeconds}, "$259.20"},
		{"a heartbeat every 3 s", Counts{Replaces: monthSeconds / 3}, "$4.32"},
		{"one write", Counts{Creates: 1}, "$0.000005"},
		{"1000 of each", Counts{Gets: 1000, Creates: 1000, Replaces: 1000, Lists: 1000, Deletes: 1000}, "$0.0154"},
		{"traffic within the region", Counts{BytesRead: 1e15, BytesWritten: 1e15}, "$0.00"},
	} {
		if got := s3.Of(c.use).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	if got := DefaultPrices("gs").Of(Counts{Replaces: 1_296_000}).String(); got != "$6.48" {
		t.Errorf("the same on GCS: %s", got)
	}
	for _, scheme := range []string{"file", "mem", ""} {
		if p := DefaultPrices(scheme); p != (Prices{}) {
			t.Errorf("%q costs %s", scheme, p)
		}
	}
}

// TestExpressOneZone has a price for bytes, as S3's fast class does.
func TestExpressOneZone(t *testing.T) {
	p, err := ParsePrices("put=0.00113, get=0.00003,list=0.00113,written=0.0032,read=0.0006", Prices{})
	if err != nil {
		t.Fatal(err)
	}
	use := Counts{Replaces: 2000, BytesWritten: 5e9, Gets: 1000, BytesRead: 1e9}
	if got := p.Of(use).String(); got != "$0.01889" {
		t.Fatalf("costs %s", got)
	}
	if got := p.Of(Counts{Replaces: 1, BytesWritten: 1e6}); got != 1130+3200 {
		t.Fatalf("a flush of a megabyte costs %d", got)
	}
}

func TestParsePricesKeepsTheRest(t *testing.T) {
	p, err := ParsePrices("put=1,Delete=$2", DefaultPrices("s3"))
	if want := (Prices{Put: Dollar, Get: 400_000, List: 5_000_000, Delete: 2 * Dollar}); err != nil || p != want {
		t.Fatalf("%+v, %v", p, err)
	}
	if same, err := ParsePrices(" ", p); err != nil || same != p {
		t.Fatalf("nothing said: %+v, %v", same, err)
	}
}

func TestParsePricesRefuses(t *testing.T) {
	for text, why := range map[string]string{
		"put": "write put, get", "pot=1": "write put, get", "put=x": "price of put", "put=1,put=2": "twice",
		"put=1,": "write put, get", "get=1000.01": "at most $1000.00", "put=-1": "price of put",
	} {
		if p, err := ParsePrices(text, Prices{}); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %+v, %v; want an error with %q", text, p, err, why)
		}
	}
}

// FuzzParsePrices: what is read is written so that the same is read again.
func FuzzParsePrices(f *testing.F) {
	for _, text := range []string{"put=0.005,get=0.0004", "read=1,written=2,list=3,delete=4", "put==1", ","} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePrices(text, Prices{})
		if err != nil {
			return
		}
		if again, err := ParsePrices(p.String(), DefaultPrices("s3")); err != nil || again != p {
			t.Fatalf("%q is %s, which is read as %s, %v", text, p, again, err)
		}
	})
}
