package auth

import (
	"net/url"
	"strings"
)

// legacyID is the id of the principal of legacy clients.
const legacyID = "legacy"

// Legacy returns the principal of all clients of the legacy listener. globs are those of the
// types that they may use; none: all. Package api limits it to the routes of legacy clients, so
// it has no role.
func Legacy(globs []string) *Principal {
	return &Principal{Kind: KindLegacy, ID: legacyID, Types: globs, Owner: ownerOf(legacyID)}
}

// Text returns the principal as one node gives it to another, for a principal without a
// credential that the other could check.
func (p *Principal) Text() string {
	if p.Kind != KindLegacy {
		return p.ID
	}
	return legacyID + "?" + url.Values{"type": p.Types}.Encode()
}

// ParseLegacy reads the text of the principal of legacy clients. It returns nil if the text is
// none, or has a glob that is malformed.
func ParseLegacy(text string) *Principal {
	query, is := strings.CutPrefix(text, legacyID+"?")
	if !is {
		return nil
	}
	values, err := url.ParseQuery(query)
	if err != nil || CheckGlobs(values["type"]) != nil {
		return nil
	}
	return Legacy(values["type"])
}

// names returns the types of a principal if they are names without a wildcard, else nil.
func (p *Principal) names() []string {
	for _, glob := range p.Types {
		if strings.ContainsAny(glob, `*?[\`) {
			return nil
		}
	}
	return p.Types
}
