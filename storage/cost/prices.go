package cost

import (
	"fmt"
	"net/url"
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

// listsDate is the date of the prices below: eu-central-1 from Amazon's price list of
// 2026-09-28, R2 and GCS from the vendors' pricing pages, us-east-1, eu-west-1, eu-west-3
// and ap-southeast-1 from published bills and tables. The prices of the other regions are
// from 2025.
const listsDate = "November 2026"

// s3Standard has the prices of S3 Standard by region, for 1000 requests, without traffic
// out of the region.
var s3Standard = map[string]Prices{
	"us-east-1":      requests(5_000_000, 400_000),
	"us-east-2":      requests(5_000_000, 400_000),
	"us-west-1":      requests(5_500_000, 440_000),
	"us-west-2":      requests(5_000_000, 400_000),
	"ap-southeast-1": requests(5_000_000, 400_000),
	"eu-central-1":   requests(5_400_000, 430_000),
	"eu-north-1":     requests(5_000_000, 400_000),
	"eu-west-1":      requests(5_000_000, 400_000),
	"eu-west-2":      requests(5_300_000, 420_000),
	"eu-west-3":      requests(5_300_000, 420_000),
}

// express has the prices of S3 Express One Zone in us-east-1, by Amazon's S3 FAQ as it was found on 2026-11-30.
// Package s3 refuses such buckets; the prices are there to compare, and for when it takes them.
var express = Prices{Put: 1_130_000, List: 1_130_000, Get: 30_000, Written: 3_200_000, Read: 600_000}

// expressSuffix is the suffix of the name of each directory bucket, which Express One Zone needs.
const expressSuffix = "--x-s3"

// r2 has the prices of Cloudflare R2, without its monthly allowance.
var r2 = requests(4_500_000, 360_000)

// r2Host is the suffix of the host of each R2 endpoint.
const r2Host = ".r2.cloudflarestorage.com"

// requests returns prices with one price for writes and listings and another one for
// reads.
func requests(put, get Money) Prices { return Prices{Put: put, List: put, Get: get} }

// PricesOf returns the list prices of the store behind a bucket URL, and a text that
// names them. known is false for a store or region that is not in the lists; the prices
// are then those of S3 Standard in us-east-1.
func PricesOf(bucketURL string) (p Prices, source string, known bool) {
	u, err := url.Parse(bucketURL)
	if err != nil {
		return Prices{}, "no price", true // opening the bucket reports the error
	}
	region, endpoint := u.Query().Get("region"), u.Query().Get("endpoint")
	host := endpoint
	if e, err := url.Parse(endpoint); err == nil && e.Host != "" {
		host = e.Hostname()
	}
	switch {
	case u.Scheme == "gs":
		return DefaultPrices("gs"), "GCS Standard in one region, " + listsDate, true
	case u.Scheme != "s3":
		return Prices{}, "no price", true
	case strings.HasSuffix(host, r2Host):
		return r2, "Cloudflare R2, " + listsDate, true
	case endpoint != "":
		return DefaultPrices("s3"), "S3 Standard in us-east-1, " + listsDate + "; the prices of the endpoint are not known", false
	case strings.HasSuffix(u.Host, expressSuffix):
		return express, "S3 Express One Zone in us-east-1, " + listsDate, region == "us-east-1"
	}
	if p, ok := s3Standard[region]; ok {
		return p, "S3 Standard in " + region + ", " + listsDate, true
	}
	return DefaultPrices("s3"), "S3 Standard in us-east-1, " + listsDate + "; the region's are not known", false
}
