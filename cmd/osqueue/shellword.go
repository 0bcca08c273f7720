package main

import "strings"

// shellWord quotes a text for a shell's command line.
func shellWord(text string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_./:@,+=%", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// shellWords quotes texts for a shell's command line.
func shellWords(texts []string) string {
	words := make([]string, len(texts))
	for i, text := range texts {
		words[i] = shellWord(text)
	}
	return strings.Join(words, " ")
}
