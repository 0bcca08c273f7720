package cost

import (
	"strings"
	"testing"
)

func TestPricesOf(t *testing.T) {
	for url, want := range map[string]struct {
		prices, source string
		known          bool
	}{
		"s3://jobs/prod?region=us-east-1":    {"put=0.005,get=0.0004,list=0.005", "S3 Standard in us-east-1", true},
		"s3://jobs/prod?region=eu-central-1": {"put=0.0054,get=0.00043,list=0.0054", "S3 Standard in eu-central-1", true},
		"s3://jobs?region=mars-north-1":      {"put=0.005,get=0.0004,list=0.005", "S3 Standard in us-east-1", false},
		"s3://jobs":                          {"put=0.005,get=0.0004,list=0.005", "S3 Standard in us-east-1", false},
		"s3://jobs?region=auto&endpoint=https://x.r2.cloudflarestorage.com": {
			"put=0.0045,get=0.00036,list=0.0045", "Cloudflare R2", true,
		},
		"s3://jobs?region=us-east-1&endpoint=http://127.0.0.1:9000": {
			"put=0.005,get=0.0004,list=0.005", "S3 Standard in us-east-1", false,
		},
		"s3://jobs--use1-az4--x-s3/p?region=us-east-1": {
			"put=0.00113,get=0.00003,list=0.00113,delete=0.00,written=0.0032,read=0.0006", "S3 Express One Zone", true,
		},
		"s3://jobs--euw1-az1--x-s3?region=eu-west-1": {"put=0.00113,get=0.00003,list=0.00113", "S3 Express One Zone in us-east-1", false},
		"gs://jobs":     {"put=0.005,get=0.0004,list=0.005", "GCS Standard", true},
		"file:///b":     {"put=0.00,get=0.00,list=0.00", "no price", true},
		"mem://":        {"put=0.00,get=0.00,list=0.00", "no price", true},
		"s3://%zz?bad=": {"put=0.00,get=0.00,list=0.00", "no price", true},
	} {
		p, source, known := PricesOf(url)
		if !strings.HasPrefix(p.String(), want.prices) || !strings.HasPrefix(source, want.source) || known != want.known {
			t.Errorf("%s: %s (%s, known %v), want %+v", url, p, source, known, want)
		}
	}
}
