package client

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

const mediaTypeEvents = "text/event-stream"

// maxEventBytes is the limit of a line of a stream, and of the data of one event.
const maxEventBytes = 1 << 20

var errLongEvent = errors.New("an event is larger than 1 MiB")

// frame is one event in the format of server-sent events.
type frame struct {
	name string
	data string
}

// frames reads server-sent events. A carriage return alone does not end a line,
// because nodes never send one.
type frames struct {
	lines *bufio.Scanner
	id    string // the id of the last complete event
	heard func() // called for every line
}

func newFrames(r io.Reader, heard func()) *frames {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4<<10), maxEventBytes)
	return &frames{lines: lines, heard: heard}
}

// next returns the next event that has a name or data. It drops an incomplete event
// at the end of the stream and returns io.EOF.
func (f *frames) next() (frame, error) {
	var out frame
	var data strings.Builder
	id := f.id
	for f.lines.Scan() {
		f.heard()
		line := f.lines.Text()
		if line == "" {
			f.id = id // only now: an event that is cut off must be sent again
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

// end returns the reason why the stream ended.
func (f *frames) end() error {
	switch err := f.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return errLongEvent
	case err != nil:
		return err
	}
	return io.EOF
}
