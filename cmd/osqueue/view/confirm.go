package view

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// NoTerminalError is the error of a command that needs a confirmation and has no terminal.
func NoTerminalError(command string) error {
	return Usagef("%s needs a confirmation, but stdin is not a terminal; give --yes to confirm", command)
}

// Interactive reports whether stdin is a terminal, so that the command can ask the user.
func (g *Globals) Interactive() bool {
	if g.Terminal != nil {
		return g.Terminal()
	}
	return IsTerminal(g.In)
}

// IsTerminal reports whether stdin is a character device other than the null device.
func IsTerminal(stdin io.Reader) bool {
	file, ok := stdin.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// Confirm asks a question on stderr. Only y and yes mean yes; the end of stdin means no.
func (g *Globals) Confirm(ctx context.Context, question string) (bool, error) {
	if err := WritePlain(g.Err, question+" [y/N] "); err != nil {
		return false, err
	}
	answer, err := bufio.NewReader(io.LimitReader(g.Stdin(ctx), 1024)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}
