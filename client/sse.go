package client

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

const mediaTypeEvents = "text/event-stream"

// maxEventBytes bounds a line of a stream of events, and the data of an event.
const maxEventBytes = 1 << 20

var errLongEvent = errors.New("an event is larger than 1 MiB")

// frame is one event of a stream, as the format of server-sent events has it.
type frame struct {
	name string
	data string
}

// frames reads server-sent events. A carriage return alone does not end a line:
// no node sends that.
type frames struct {
	lines *bufio.Scanner
	id    string // of the last event that was whole, or of one before
	heard func() // called for each line
}

func newFrames(r io.Reader, heard func()) *frames {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4<<10), maxEventBytes)
	return &frames{lines: lines, heard: heard}
}

// next returns the next event that has a name or data. What is not finished
// when the stream ends is dropped; the error is io.EOF then.
func (f *frames) next() (frame, error) {
	var out frame
	var data strings.Builder
	id := f.id
	for f.lines.Scan() {
		f.heard()
		line := f.lines.Text()
		if line == "" {
			f.id = id // not before: an event that is cut off must come again
			out.data = strings.TrimSuffix(data.String(), "\n")
			if out.name != "" || out.data != "" {
				return out, nil
			}
			data.Reset()
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			out.name = value
		case "data":
			if data.Len()+len(value) > maxEventBytes {
				return frame{}, errLongEvent
			}
			data.WriteString(value)
			data.WriteByte('\n')
		case "id":
			if !strings.ContainsRune(value, 0) {
				id = value
			}
		}
	}
	return frame{}, f.end()
}

// end is why there are no more lines.
func (f *frames) end() error {
	switch err := f.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return errLongEvent
	case err != nil:
		return err
	}
	return io.EOF
}
