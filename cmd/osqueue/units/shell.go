package units

import "strings"

// ShellWord quotes a text for a shell's command line.
func ShellWord(text string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_./:@,+=%", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// ShellWords quotes texts for a shell's command line.
func ShellWords(texts []string) string {
	words := make([]string, len(texts))
	for i, text := range texts {
		words[i] = ShellWord(text)
	}
	return strings.Join(words, " ")
}
