package cost

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Money is an amount of US dollars, in billionths.
type Money int64

// Dollar is one US dollar.
const Dollar Money = 1e9

// Month is the length of a month in budgets and projections.
const Month = 30 * 24 * time.Hour

// maxDollars is the largest amount that can be given: sums stay far from overflow.
const maxDollars = 1e9

// fractionDigits is the number of decimals of Money.
const fractionDigits = 9

// ParseMoney reads an amount of dollars: 5usd, $5, 5, 0.75.
func ParseMoney(text string) (Money, error) {
	m, why := parseDollars(stripUnit(text))
	if why != "" {
		return 0, fmt.Errorf("%q is not an amount of dollars (%s): write it as in 5usd, $5 or 0.75", text, why)
	}
	return m, nil
}

func stripUnit(text string) string {
	text = strings.TrimSpace(text)
	if amount, ok := strings.CutPrefix(text, "$"); ok {
		return strings.TrimSpace(amount)
	}
	if n := len(text) - len("usd"); n >= 0 && strings.EqualFold(text[n:], "usd") {
		return strings.TrimSpace(text[:n])
	}
	return text
}

// parseDollars reads a decimal number exactly; why is "" if text is one.
func parseDollars(text string) (m Money, why string) {
	whole, fraction, point := strings.Cut(text, ".")
	switch {
	case !allDigits(whole) || !allDigits(fraction) || whole == "" && fraction == "":
		return 0, "it must be a plain number that is not negative"
	case point && fraction == "":
		return 0, "digits are missing after the point"
	}
	fraction = strings.TrimRight(fraction, "0")
	if len(fraction) > fractionDigits {
		return 0, "it has more than 9 decimals"
	}
	fraction += strings.Repeat("0", fractionDigits-len(fraction))
	dollars, err := strconv.ParseInt("0"+whole, 10, 64)
	if err != nil || dollars > maxDollars {
		return 0, "it is more than a billion"
	}
	nanos, err := strconv.ParseInt(fraction, 10, 64)
	if err != nil {
		return 0, "its fraction cannot be read"
	}
	return Money(dollars)*Dollar + Money(nanos), ""
}

func allDigits(text string) bool {
	return strings.Trim(text, "0123456789") == ""
}

// USD returns the amount in dollars, for display and for metrics.
func (m Money) USD() float64 { return float64(m) / float64(Dollar) }

// String returns the amount as in $6.48, with all its decimals, at least two.
func (m Money) String() string { return "$" + m.decimal() }

// flag returns the amount in the form of flags, as in 6.48usd.
func (m Money) flag() string { return m.decimal() + "usd" }

func (m Money) decimal() string {
	sign := ""
	n := uint64(m)
	if m < 0 {
		sign, n = "-", -n
	}
	fraction := fmt.Sprintf("%09d", n%uint64(Dollar))
	short := strings.TrimRight(fraction, "0")
	return fmt.Sprintf("%s%d.%s", sign, n/uint64(Dollar), fraction[:max(len(short), 2)])
}

// cents rounds up to whole cents.
func (m Money) cents() Money {
	const cent = Dollar / 100
	return (m + cent - 1) / cent * cent
}

// mulDiv returns a·b/c without intermediate overflow. A result that is too large becomes
// the largest amount. c must not be zero.
func mulDiv(a, b, c uint64) Money {
	hi, lo := bits.Mul64(a, b)
	if hi >= c {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, c)
	return Money(min(q, math.MaxInt64))
}
