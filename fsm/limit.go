package fsm

import (
	"errors"
	"strings"
	"unicode/utf8"

	"osqueue/fsm/tenants"
)

// Bounds of limits by key.
const (
	LimitsMax     = 8   // keys of a job
	LimitNameMax  = 100 // bytes of a key or pattern
	LimitRulesMax = 10_000
)

var errLimits = errors.New("a limit or pattern is empty, too long, or not UTF-8, or limits are not sorted or too many, or a number is negative")

// checkLimits refuses limits that no job can have.
func checkLimits(keys []string) error {
	for i, key := range keys {
		if !validKey(key) || i > 0 && keys[i-1] >= key {
			return errLimits
		}
	}
	return need(len(keys) <= LimitsMax, errLimits)
}

// validKey reports whether the state or a caller can have the key.
func validKey(key string) bool {
	tenant, name, owned := strings.Cut(key, tenants.End)
	if !owned {
		tenant, name = "", key
	}
	return name != "" && len(name) <= LimitNameMax && utf8.ValidString(name) && !strings.Contains(name, "*") && tenants.Check(tenant) == nil
}

// validPattern reports whether a rule can have the pattern.
func validPattern(pattern string) bool {
	prefix, found := strings.CutSuffix(pattern, "*")
	if !found {
		return validKey(pattern)
	}
	return len(prefix) < LimitNameMax+tenants.Max+1 && (prefix == "" || strings.HasSuffix(prefix, tenants.End) || validKey(prefix))
}
