package transcript

import (
	"regexp"
	"time"
)

var (
	uuid4   = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	epochMs = regexp.MustCompile(`^[1-9]\d{12}$`) // 2001 to 2286
	// isoLocal has no fraction for a full second.
	isoLocal = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?$`)
)

// formats are the formats that a case may require of a value.
var formats = map[string]func(any) bool{
	"uuid4":        func(v any) bool { s, ok := v.(string); return ok && uuid4.MatchString(s) },
	"epoch_ms":     func(v any) bool { n, ok := v.(Number); return ok && epochMs.MatchString(string(n)) },
	"epoch_ms_str": func(v any) bool { s, ok := v.(string); return ok && epochMs.MatchString(s) },
	"iso_local":    isISOLocal,
}

func isISOLocal(v any) bool {
	s, ok := v.(string)
	if !ok || !isoLocal.MatchString(s) {
		return false
	}
	_, err := time.Parse("2006-01-02T15:04:05.999999", s)
	return err == nil
}
