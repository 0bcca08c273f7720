package cost

import (
	"math"
	"testing"
)

func TestParseMoney(t *testing.T) {
	for text, want := range map[string]Money{
		"5usd": 5 * Dollar, "$5": 5 * Dollar, "5": 5 * Dollar, " 5 USD ": 5 * Dollar, "$ 5": 5 * Dollar, "0": 0,
		"6.48usd": 6_480_000_000, ".5": Dollar / 2, "0.000000001": 1, "0.0050000000000": 5_000_000, "007": 7 * Dollar,
		"1000000": 1e6 * Dollar,
	} {
		if got, err := ParseMoney(text); err != nil || got != want {
			t.Errorf("%q = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "usd", "$", "5eur", "-5", "+5", "5.", ".", "1e3", "0x10", "5,0", "5 5", "$5usd", "0.0000000001",
		"1000001", "99999999999999999999", "NaN", "inf", "٥",
	} {
		if got, err := ParseMoney(text); err == nil {
			t.Errorf("%q was read as %s", text, got)
		}
	}
}

func TestMoneyText(t *testing.T) {
	for m, want := range map[Money]string{
		0: "$0.00", 1: "$0.000000001", 5000: "$0.000005", Dollar / 2: "$0.50", 6_480_000_000: "$6.48", 12 * Dollar: "$12.00",
		-Dollar / 4: "$-0.25", maxDollars*Dollar - 1: "$999999.999999999",
	} {
		if got := m.String(); got != want {
			t.Errorf("%d is written %s, want %s", int64(m), got, want)
		}
	}
}

func TestMulDivSaturates(t *testing.T) {
	for _, c := range []struct {
		a, b, c uint64
		want    Money
	}{
		{7, 3, 2, 10},
		{math.MaxUint64, 2, 4, math.MaxInt64},
		{math.MaxUint64, math.MaxUint64, 1, math.MaxInt64},
		{1 << 62, 1 << 62, 1 << 62, 1 << 62},
		{0, math.MaxUint64, 1, 0},
	} {
		if got := mulDiv(c.a, c.b, c.c); got != c.want {
			t.Errorf("%d·%d/%d = %d, want %d", c.a, c.b, c.c, got, c.want)
		}
	}
}

// FuzzParseMoney: what is read is written so that the same is read again.
func FuzzParseMoney(f *testing.F) {
	for _, text := range []string{"5usd", "$5", "0.75", "1e9", "-1", "", "999999999.999999999", "999999.999999999"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMoney(text)
		if err != nil {
			return
		}
		if m < 0 || m > maxDollars*Dollar+Dollar {
			t.Fatalf("%q is %d", text, m)
		}
		for _, written := range []string{m.String(), m.decimal() + "usd", m.decimal()} {
			if again, err := ParseMoney(written); err != nil || again != m {
				t.Fatalf("%q is %s, which is read as %s, %v", text, written, again, err)
			}
		}
	})
}
