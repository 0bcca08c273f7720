package v1

import (
	"regexp"
	"strings"
)

// ErrorLine returns the line of an error text that says what failed: the first one or, of a Python
// traceback, the last one that is not indented.
func ErrorLine(text string) string {
	first, rest, _ := strings.Cut(text, "\n")
	if strings.HasPrefix(first, "Traceback (") {
		for line := range strings.SplitSeq(rest, "\n") {
			if strings.TrimSpace(line) != "" && line[0] != ' ' && line[0] != '\t' {
				first = line
			}
		}
	}
	return strings.TrimRight(first, "\r")
}

// variable are the parts of an error that differ between jobs which failed for the same reason: ids,
// hexadecimal numbers, and numbers.
var variable = regexp.MustCompile(`[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|0[xX][0-9a-fA-F]+|\b([a-fA-F]*[0-9]){2}[0-9a-fA-F]{6,}\b|[0-9]+`)

// ErrorGroup returns what an error has in common with others of the same reason: its ErrorLine, with #
// in place of ids and numbers.
func ErrorGroup(text string) string { return variable.ReplaceAllLiteralString(ErrorLine(text), "#") }
