package main

import (
	"regexp"
	"strings"
	"unicode"
)

// pronounOpener matches a sentence that begins with a pronoun where an actor should
// stand. "That" and "those" count only in front of a verb or a relative clause: "that
// document" names a thing. "Whether" and "when" are conditions and pass.
var pronounOpener = regexp.MustCompile(
	`(?:^|[.!?:]\s+)((?:What|Who|Whoever|Whatever|Whose|Nobody|Somebody|Anybody|Nothing that|All that|Those (?:that|who|of)|That (?:is|was|it|they|which))\b[^.]*)`)

// isPronoun matches sentences such as "X is what …" and "X are those that …" at the
// start of a doc comment.
var isPronoun = regexp.MustCompile(
	`^\S+(?:\s+\S+){0,3}?\s+(?:is|are|was|were|says|tells|holds|has)\s+(?:what|who|whom|whose|those|whatever|whoever|nobody|somebody)\b[^.]*`)

// turnsOnPronoun returns the sentence of a doc comment that turns on a pronoun, or "".
func turnsOnPronoun(text string) string {
	flat := strings.Join(strings.Fields(text), " ")
	if m := isPronoun.FindString(flat); m != "" {
		return clip(m)
	}
	if m := pronounOpener.FindStringSubmatch(flat); m != nil {
		return clip(m[1])
	}
	return ""
}

// startsWithName reports whether a doc comment follows the convention of Go. An
// article may precede the name, and a marker such as "Deprecated:" may stand alone.
func startsWithName(text, name string) bool {
	first, rest, _ := strings.Cut(text, " ")
	switch first {
	case "A", "An", "The":
		first, _, _ = strings.Cut(rest, " ")
	case "Deprecated:":
		return true
	}
	if strings.HasPrefix(first, "//") { // a directive
		return true
	}
	first = strings.TrimRight(strings.Fields(first + " ")[0], ".,:;()'’s")
	return first == strings.TrimRight(name, "s") || first == name
}

// words are forbidden in every comment, by language.md.
var words = regexp.MustCompile(`(?i)\b(anew|all the same|for ever|somebody|nobody|whoever|told|by the way|in the meantime|but for|goes on|each \d+ ?(?:ms|s|min|h)|sign of life|signs of life|drop box|gives? back|given back|reigns?|twins?|passengers?|inaugurat\w+|candidac\w+|rouse\w*|salvag\w+|wrecks?)\b`)

// forbiddenWords returns the forbidden words of a comment.
func forbiddenWords(text string) []string { return words.FindAllString(text, -1) }

// terms must not be a part of an identifier.
var terms = map[string]bool{
	"reign": true, "reigns": true, "inaugurate": true, "candidacy": true, "roster": true,
	"rouse": true, "bite": true, "bites": true, "fate": true, "fates": true, "twin": true, "twins": true,
	"tally": true, "bury": true, "locus": true, "teller": true, "fulfil": true, "drafter": true,
	"salvage": true, "salvaged": true, "wreck": true, "wrecked": true, "governor": true,
	"passenger": true, "passengers": true, "seat": true, "seats": true, "dice": true, "crowd": true,
	"rent": true, "chapter": true, "chapters": true, "journal": true, "wish": true, "wishes": true,
}

// forbiddenTerm returns the forbidden part of a camel-case identifier, or "".
func forbiddenTerm(name string) string {
	for _, part := range camelParts(name) {
		if terms[strings.ToLower(part)] {
			return part
		}
	}
	return ""
}

// camelParts splits a name at its upper-case letters and at underscores.
func camelParts(name string) []string {
	var parts []string
	start := 0
	for i, r := range name {
		if i > start && (unicode.IsUpper(r) || r == '_') {
			parts = append(parts, strings.Trim(name[start:i], "_"))
			start = i
		}
	}
	return append(parts, strings.Trim(name[start:], "_"))
}
