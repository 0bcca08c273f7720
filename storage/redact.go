package storage

import (
	"net/url"
	"slices"
)

// shownParams are the parameters of bucket URLs whose values are no secrets.
var shownParams = []string{"endpoint", "region"}

// RedactURL returns a bucket URL for messages: without a password, and without the values of
// parameters that no driver knows, because people write secret keys there by mistake.
func RedactURL(u *url.URL) string {
	shown := *u
	if shown.RawQuery != "" {
		values, err := url.ParseQuery(shown.RawQuery)
		if err != nil {
			shown.RawQuery = hidden
			return shown.Redacted()
		}
		for name, given := range values {
			for i, value := range given {
				inner, err := url.Parse(value)
				switch {
				case !slices.Contains(shownParams, name), err != nil:
					given[i] = hidden
				default:
					given[i] = inner.Redacted()
				}
			}
		}
		shown.RawQuery = values.Encode()
	}
	if shown.Fragment != "" {
		shown.Fragment, shown.RawFragment = hidden, ""
	}
	return shown.Redacted()
}

// hidden stands for a text that may be a secret, as in (*url.URL).Redacted.
const hidden = "xxxxx"
