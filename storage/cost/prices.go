package cost

import (
	"fmt"
	"slices"
	"strings"
)

// Prices has the charges of a store: for 1000 requests of each sort, and for a GB (10^9
// bytes) of objects written and read.
type Prices struct {
	Put, Get, List, Delete Money // for 1000 requests
	Written, Read          Money // for a GB
}

const (
	perRequests = 1000
	perBytes    = 1e9
)

// DefaultPrices returns the list prices of the store behind a bucket URL of that scheme,
// in its cheapest regions and without traffic out of them: S3 Standard, GCS Standard.
// Directories and memory cost nothing.
func DefaultPrices(scheme string) Prices {
	switch scheme {
	case "s3", "gs": // class A and B operations of GCS cost the same as S3's
		return Prices{Put: Dollar * 5 / 1000, List: Dollar * 5 / 1000, Get: Dollar * 4 / 10_000}
	default:
		return Prices{}
	}
}

// price is a price by its name in flags.
type price struct {
	name string
	of   func(*Prices) *Money
}

var priceNames = []price{
	{"put", func(p *Prices) *Money { return &p.Put }},
	{"get", func(p *Prices) *Money { return &p.Get }},
	{"list", func(p *Prices) *Money { return &p.List }},
	{"delete", func(p *Prices) *Money { return &p.Delete }},
	{"written", func(p *Prices) *Money { return &p.Written }},
	{"read", func(p *Prices) *Money { return &p.Read }},
}

// priceMax is the largest valid price, far above all real ones.
const priceMax = 1000 * Dollar

// ParsePrices reads prices as in put=0.005,get=0.0004, in dollars for 1000 requests (put,
// get, list, delete) or for a GB (written, read). Prices that text does not name keep
// their value in p; an empty text changes nothing.
func ParsePrices(text string, p Prices) (Prices, error) {
	if strings.TrimSpace(text) == "" {
		return p, nil
	}
	seen := make(map[string]bool)
	for part := range strings.SplitSeq(text, ",") {
		name, amount, ok := strings.Cut(part, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		i := slices.IndexFunc(priceNames, func(n price) bool { return n.name == name })
		if !ok || i < 0 {
			return Prices{}, fmt.Errorf("price %q: write put, get, list, delete (dollars for 1000), written or read "+
				"(dollars for a GB) and an amount, as in put=0.005,get=0.0004", part)
		}
		if seen[name] {
			return Prices{}, fmt.Errorf("the price of %s is given twice", name)
		}
		seen[name] = true
		m, err := ParseMoney(amount)
		if err != nil {
			return Prices{}, fmt.Errorf("price of %s: %w", name, err)
		}
		if m > priceMax {
			return Prices{}, fmt.Errorf("the price of %s is %s: must be at most %s", name, m, priceMax)
		}
		*priceNames[i].of(&p) = m
	}
	return p, nil
}

// String returns all prices in the form that ParsePrices reads.
func (p Prices) String() string {
	parts := make([]string, len(priceNames))
	for i, n := range priceNames {
		parts[i] = n.name + "=" + n.of(&p).decimal()
	}
	return strings.Join(parts, ",")
}

// Of returns the cost of the use c.
func (p Prices) Of(c Counts) Money {
	return times(p.Put, c.Creates+c.Replaces, perRequests) +
		times(p.Get, c.Gets, perRequests) +
		times(p.List, c.Lists, perRequests) +
		times(p.Delete, c.Deletes, perRequests) +
		times(p.Written, c.BytesWritten, perBytes) +
		times(p.Read, c.BytesRead, perBytes)
}

func times(m Money, n, per uint64) Money { return mulDiv(uint64(m), n, per) }
