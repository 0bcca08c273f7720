package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

// maxPayload bounds the payload of one job: the server takes 1 MiB including the other
// fields.
const maxPayload = 1<<20 - 1024

// readPayload returns the argument, or else the content of stdin.
func readPayload(ctx context.Context, g *view.Globals, argument *string) (text []byte, present bool, err error) {
	if argument != nil && *argument != "-" {
		return []byte(*argument), true, nil
	}
	if argument == nil && !piped(g.In) {
		return nil, false, nil
	}
	text, err = io.ReadAll(io.LimitReader(g.Stdin(ctx), maxPayload+1))
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("read the payload from stdin: %w", err)
	case len(text) > maxPayload:
		return nil, false, fmt.Errorf("the payload on stdin is larger than %d bytes; store it elsewhere and submit its URL", maxPayload)
	}
	return text, len(text) > 0 || argument != nil, nil
}

// piped reports whether data is sent to stdin: a terminal and /dev/null are devices.
func piped(stdin io.Reader) bool {
	file, ok := stdin.(*os.File)
	if !ok {
		return stdin != nil
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&fs.ModeCharDevice == 0
}

// openInput returns a file's content; - is stdin.
func openInput(g *view.Globals, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(g.In), nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// asJSON converts a typed payload to JSON.
func asJSON(text []byte, plain bool) ([]byte, error) {
	if plain {
		quoted, err := jsontext.AppendQuote(nil, text)
		if err != nil {
			return nil, fmt.Errorf("is not UTF-8: %w", err)
		}
		return quoted, nil
	}
	if !v1.ValidJSON(text) {
		return nil, notJSON(text)
	}
	return text, nil
}

// notJSON describes the position at which a payload stops being JSON.
func notJSON(text []byte) error {
	var syntax *jsontext.SyntacticError
	if err := json.Unmarshal(text, new(jsontext.Value), jsontext.AllowDuplicateNames(true)); !errors.As(err, &syntax) {
		return fmt.Errorf("is not valid JSON (%w); quote text as JSON, or give --text", err)
	}
	at := int(syntax.ByteOffset)
	reason := strings.TrimPrefix(syntax.Err.Error(), "jsontext: ")
	if errors.Is(syntax.Err, io.ErrUnexpectedEOF) {
		reason = "it is incomplete"
	}
	return fmt.Errorf("is not valid JSON at byte %d%s: %s; quote text as JSON, or give --text", at, near(text, at), reason)
}

// near returns the text before a position.
func near(text []byte, at int) string {
	const most = 20
	at = min(at, len(text))
	if at == 0 {
		return ""
	}
	return fmt.Sprintf(", after %q", text[max(0, at-most):at])
}
