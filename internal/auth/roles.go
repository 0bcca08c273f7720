package auth

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"slices"

	"go.yaml.in/yaml/v3"

	"osqueue/fsm"
	"osqueue/fsm/tenants"
)

// Roles gives roles to identities that others vouch for: the issuer of JWTs, and the CA of
// client certificates. The first rule that matches counts; without one an identity has no rights.
type Roles struct{ rules []roleRule }

// roleRule is a rule as it stands in the file.
type roleRule struct {
	From       Kind              `yaml:"from"`
	Match      map[string]string `yaml:"match"` // globs of the values, by claim or field
	Role       string            `yaml:"role"`
	Types      []string          `yaml:"types"`
	Groups     []string          `yaml:"groups"`
	Programs   bool              `yaml:"programs"`
	MaxPayload int64             `yaml:"max-payload"`
	MaxJobs    int64             `yaml:"max-jobs"`
	MaxBytes   int64             `yaml:"max-bytes"`
	Rate       float64           `yaml:"rate"`
	Burst      int64             `yaml:"burst"`
	Tenant     string            `yaml:"tenant"` // of a rule with types or groups

	role fsm.Role
}

// The limits of a file of rules.
const (
	rolesMax    = 1000 // rules
	rateMost    = 1e6
	claimValues = 1000 // of one claim that are compared
)

// ParseRoles reads a file of rules: a YAML list.
func ParseRoles(data []byte) (*Roles, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	r := new(Roles)
	if err := dec.Decode(&r.rules); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("rules of roles: %w", err)
	}
	if len(r.rules) == 0 || len(r.rules) > rolesMax {
		return nil, fmt.Errorf("rules of roles: %d rules: 1 to %d are allowed", len(r.rules), rolesMax)
	}
	for i := range r.rules {
		if err := r.rules[i].check(); err != nil {
			return nil, fmt.Errorf("rules of roles: rule %d: %w", i+1, err)
		}
	}
	return r, nil
}

func (r *roleRule) check() error {
	role, known := fsm.ParseRole(r.Role)
	r.role = role
	switch {
	case r.From != KindJWT && r.From != KindCertificate:
		return fmt.Errorf("from %q: write %s or %s", r.From, KindJWT, KindCertificate)
	case !known:
		return fmt.Errorf("role %q: write producer, worker, reader, operator or admin", r.Role)
	case len(r.Match) == 0:
		return errors.New("match: name at least one claim, or cn, uri or name of a certificate")
	case min(r.MaxPayload, r.MaxJobs, r.MaxBytes, r.Burst) < 0 || math.IsNaN(r.Rate) || r.Rate < 0 || r.Rate > rateMost:
		return fmt.Errorf("max-payload %d, max-jobs %d, max-bytes %d, burst %d and rate %v: must not be negative, and rate at most %d",
			r.MaxPayload, r.MaxJobs, r.MaxBytes, r.Burst, r.Rate, int(rateMost))
	}
	if r.Tenant != "" && (!tenants.Valid(r.Tenant) || len(r.Types)+len(r.Groups) == 0) {
		return fmt.Errorf("tenant %q: it must have at most %d bytes and no slash, and the rule needs types or groups", r.Tenant, tenants.Max)
	}
	globs := append(slices.Clone(r.Types), r.Groups...)
	for claim, glob := range r.Match {
		if claim == "" || glob == "" {
			return errors.New("match: claims and patterns must not be empty")
		}
		globs = append(globs, glob)
	}
	return CheckGlobs(globs)
}

// Uses reports whether there is a rule for identities of a kind.
func (r *Roles) Uses(from Kind) bool {
	return r != nil && slices.ContainsFunc(r.rules, func(rule roleRule) bool { return rule.From == from })
}

// Principal returns the principal of an identity, or nil if no rule matches. name is unique among
// the identities of the kind and their issuer; values returns the values of a claim or field.
func (r *Roles) Principal(from Kind, issuer, name string, values func(claim string) []string) *Principal {
	if r == nil {
		return nil
	}
	for i := range r.rules {
		if rule := &r.rules[i]; rule.From == from && rule.matches(values) {
			owner := ownerOf(string(from) + ":" + issuer + "\n" + name)
			account := fmt.Sprintf("%s:%016x", from, owner)
			return &Principal{
				Kind: from, ID: string(from) + ":" + name, Role: rule.role, Rights: RightsOf(rule.role),
				Types: rule.Types, Groups: rule.Groups, Programs: rule.Programs || rule.role == fsm.RoleAdmin,
				MaxPayload: rule.MaxPayload, RateMilli: int64(math.Ceil(rule.Rate * 1000)), Burst: rule.Burst,
				Owner: owner, MaxJobs: rule.MaxJobs, MaxBytes: rule.MaxBytes, Account: account, Tenant: rule.tenant(account),
			}
		}
	}
	return nil
}

// tenant returns the tenant of an identity: a limited one without a name is a tenant by itself.
func (r *roleRule) tenant(account string) string {
	if len(r.Types)+len(r.Groups) == 0 {
		return ""
	}
	return cmp.Or(r.Tenant, account)
}

// matches reports whether each of the claims has a value that matches.
func (r *roleRule) matches(values func(claim string) []string) bool {
	for claim, glob := range r.Match {
		all := values(claim)
		if len(all) > claimValues {
			return false
		}
		if !slices.ContainsFunc(all, func(value string) bool {
			ok, err := path.Match(glob, value)
			return ok && err == nil
		}) {
			return false
		}
	}
	return true
}
