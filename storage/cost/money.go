package cost

import (
	"fmt"
	"math"
	"math/bits"
	"regexp"
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

// maxDollars is the largest amount that can be given: up to it each billionth is exact as a float64.
const maxDollars = 1_000_000

// fractionDigits is the number of decimals of Money.
const fractionDigits = 9

// plainNumber matches a number that has no more decimals than Money.
var plainNumber = regexp.MustCompile(`^([0-9]+|[0-9]*\.[0-9]{1,9}0*)$`)

// ParseMoney reads an amount of dollars: 5usd, $5, 5, 0.75.
func ParseMoney(text string) (Money, error) {
	amount := stripUnit(text)
	dollars, err := strconv.ParseFloat(amount, 64)
	if err != nil || !plainNumber.MatchString(amount) || dollars > maxDollars {
		return 0, fmt.Errorf("%q is not an amount of dollars: write a plain number up to %d with at most %d decimals, as in 5usd, $5 or 0.75",
			text, maxDollars, fractionDigits)
	}
	return Money(math.Round(dollars * float64(Dollar))), nil
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

// USD returns the amount in dollars, for display and for metrics.
func (m Money) USD() float64 { return float64(m) / float64(Dollar) }

// String returns the amount as in $6.48, with all its decimals, at least two.
func (m Money) String() string { return "$" + m.decimal() }

func (m Money) decimal() string {
	text := strconv.FormatFloat(m.USD(), 'f', fractionDigits, 64)
	short := strings.TrimRight(text, "0")
	return text[:max(len(short), len(text)-fractionDigits+2)]
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
