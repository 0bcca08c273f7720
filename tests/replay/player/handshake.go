package player

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"osqueue/tests/replay/transcript"
)

// handshake requests a WebSocket, and checks only the answer.
func (p *Player) handshake(ctx context.Context, c *transcript.Case) (string, *transcript.Difference, error) {
	r := c.HandshakeRequest
	line := "WS " + r.Path
	u, err := url.Parse(p.at.Base)
	if err != nil {
		return line, nil, err
	}
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return line, nil, err
	}
	defer nc.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := nc.SetDeadline(deadline); err != nil {
			return line, nil, err
		}
	}
	req, err := p.upgrade(ctx, r)
	if err != nil {
		return line, nil, err
	}
	if err := req.Write(nc); err != nil {
		return line, nil, err
	}
	in := bufio.NewReader(nc)
	resp, err := http.ReadResponse(in, req)
	if err != nil {
		return line, nil, err
	}
	defer resp.Body.Close()
	code := noCode
	a := transcript.Answer{Status: resp.StatusCode, Header: resp.Header}
	if a.Status == http.StatusSwitchingProtocols {
		if err := checkAccept(req, resp); err != nil {
			return line, nil, err
		}
		if c.HandshakeResponse.CloseCode != nil {
			code = readClose(nc, in)
		}
	} else if a, err = answerOf(resp); err != nil {
		return line, nil, err
	}
	return line, c.CheckHandshake(a, code), nil
}

// upgrade returns the handshake request. The headers of the case have precedence.
func (p *Player) upgrade(ctx context.Context, r *transcript.HandshakeRequest) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.at.Base+r.Path, nil)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, 16)
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	req.Header = http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
		"Sec-Websocket-Key": {base64.StdEncoding.EncodeToString(nonce)},
	}
	own, err := p.header(r.ClientHeaders, r.Headers)
	if err != nil {
		return nil, err
	}
	for name, values := range own {
		if values == nil {
			req.Header.Del(name)
			continue
		}
		req.Header[name] = values
	}
	return req, nil
}

// guid is the value that a server appends to the key, by RFC 6455.
const guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

func checkAccept(req *http.Request, resp *http.Response) error {
	sum := sha1.Sum([]byte(req.Header.Get("Sec-WebSocket-Key") + guid))
	want := base64.StdEncoding.EncodeToString(sum[:])
	if got := resp.Header.Get("Sec-WebSocket-Accept"); got != want {
		return fmt.Errorf("Sec-WebSocket-Accept is %q, and %q would be right", got, want)
	}
	return nil
}

const (
	noCode    = -1
	closeNone = 1005 // a close frame without a code
	closeWait = time.Second
)

// readClose waits for a close frame and returns its code.
func readClose(nc net.Conn, in io.Reader) int {
	if err := nc.SetReadDeadline(time.Now().Add(closeWait)); err != nil {
		return noCode
	}
	head := make([]byte, 2)
	if _, err := io.ReadFull(in, head); err != nil || head[0] != 0x88 {
		return noCode
	}
	if head[1] < 2 {
		return closeNone
	}
	code := make([]byte, 2)
	if _, err := io.ReadFull(in, code); err != nil {
		return noCode
	}
	return int(binary.BigEndian.Uint16(code))
}
