package transcript

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/textproto"
	"strconv"
)

// A frame of gRPC-Web is a byte of flags, the length, and the contents.
const (
	frameHead    = 5
	trailerFrame = 0x80
)

func appendFrame(b []byte, flags byte, data []byte) []byte {
	b = append(b, flags)
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

// readFrames returns the message, nil if there is none, and the status in the trailer.
func readFrames(data []byte) (message []byte, status int, err error) {
	status = -1
	for len(data) > 0 {
		if len(data) < frameHead {
			return nil, 0, errors.New("a frame is cut off")
		}
		n := int(binary.BigEndian.Uint32(data[1:frameHead]))
		flags, rest := data[0], data[frameHead:]
		switch {
		case n > len(rest):
			return nil, 0, errors.New("a frame is cut off")
		case flags == trailerFrame:
			if status, err = readTrailer(rest[:n]); err != nil {
				return nil, 0, err
			}
		case flags == 0 && message == nil:
			message = rest[:n:n]
		default:
			return nil, 0, fmt.Errorf("a frame with the flags %#x is not expected here", flags)
		}
		data = rest[n:]
	}
	if status < 0 {
		return nil, 0, errors.New("there is no trailer with a grpc-status")
	}
	return message, status, nil
}

func readTrailer(data []byte) (status int, err error) {
	block := append(bytes.TrimRight(data, "\r\n"), "\r\n\r\n"...)
	header, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(block))).ReadMIMEHeader()
	if err != nil {
		return 0, fmt.Errorf("the trailer: %w", err)
	}
	return strconv.Atoi(header.Get("grpc-status"))
}
