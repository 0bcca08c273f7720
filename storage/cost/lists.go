package cost

import (
	"net/url"
	"strings"
)

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
	}
	if p, ok := s3Standard[region]; ok {
		return p, "S3 Standard in " + region + ", " + listsDate, true
	}
	return DefaultPrices("s3"), "S3 Standard in us-east-1, " + listsDate + "; the region's are not known", false
}
