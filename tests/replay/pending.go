package main

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
)

// pendingFile lists the cases that do not pass yet, one per line: the mode (see modes), the
// file, and the case. Lines that begin with # are comments.
const pendingFile = "pending.txt"

// needsFile is used instead of a file in the names of the calls of TestClientNeeds.
const needsFile = "needs"

// isNeed reports whether a name is that of such a call and not of a recorded case.
func isNeed(name string) bool {
	fields := strings.Fields(name)
	return len(fields) > 1 && fields[1] == needsFile
}

// readPending reads the lines of the list.
func readPending(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if slices.Contains(list, line) {
			return nil, fmt.Errorf("%s: %q is there twice", path, line)
		}
		list = append(list, line)
	}
	return list, lines.Err()
}

// shrinkPending removes lines from the file. It adds none.
func shrinkPending(path string, out []string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var kept strings.Builder
	for line := range strings.Lines(string(data)) {
		if !slices.Contains(out, strings.TrimSpace(line)) {
			kept.WriteString(line)
		}
	}
	return os.WriteFile(path, []byte(kept.String()), 0o644)
}
