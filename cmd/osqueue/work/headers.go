package work

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// headerFileMax bounds a file of headers, in bytes.
const headerFileMax = 64 << 10

// readHeaderFile reads headers from a file, one NAME: VALUE a line. Blank lines and lines that
// begin with # are skipped. Errors name the line and never show a value.
func readHeaderFile(path string) (http.Header, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("file of headers: %w", err)
	}
	if len(data) > headerFileMax {
		return nil, fmt.Errorf("file of headers %s: has %d bytes; at most %d are allowed", path, len(data), headerFileMax)
	}
	header := make(http.Header)
	number := 0
	for line := range bytes.Lines(data) {
		number++
		text := strings.TrimSpace(string(line))
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		name, value, found := strings.Cut(text, ":")
		value = strings.TrimSpace(value)
		if !found || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("file of headers %s, line %d: write NAME: VALUE, for example Authorization: Bearer …", path, number)
		}
		header.Add(name, value)
	}
	return header, nil
}

// redacted returns a URL for messages: without a password and the values of its parameters,
// which may be secrets.
func redacted(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	if u.RawQuery != "" {
		u.RawQuery = "xxxxx"
	}
	return u.Redacted()
}
