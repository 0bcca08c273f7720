package replay

import (
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"

	"osqueue/tests/replay/transcript"
)

// frameMax bounds a message from the server.
const frameMax = 16 << 20

func (p *player) ws(ctx context.Context, c *transcript.Case) (string, *transcript.Difference, error) {
	frames, err := c.WSRequest.Frames(p.vars)
	line := "WS " + c.WSRequest.Path
	if err != nil {
		return line, nil, err
	}
	for _, f := range frames {
		line += " " + string(f.Data[:min(len(f.Data), lineMax)])
	}
	answers, err := p.ask(ctx, c, frames)
	if err != nil {
		p.drop(c)
		return line, nil, err
	}
	d := c.CheckMessages(answers, p.vars)
	if d != nil {
		p.drop(c)
	}
	return line, d, nil
}

// key names a connection of the sequence.
func key(c *transcript.Case) string { return c.WSRequest.Path + " " + c.WSRequest.Conn }

func (p *player) drop(c *transcript.Case) {
	if ws := p.conns[key(c)]; ws != nil {
		_ = ws.CloseNow()
		delete(p.conns, key(c))
	}
}

func (p *player) ask(ctx context.Context, c *transcript.Case, frames []transcript.Frame) ([][]byte, error) {
	ws, err := p.dial(ctx, c)
	if err != nil {
		return nil, err
	}
	for _, f := range frames {
		kind := websocket.MessageText
		if f.Binary {
			kind = websocket.MessageBinary
		}
		if err := ws.Write(ctx, kind, f.Data); err != nil {
			return nil, err
		}
	}
	var answers [][]byte
	for range c.Answers() {
		kind, data, err := ws.Read(ctx)
		if err != nil {
			return nil, fmt.Errorf("after %d answers: %w", len(answers), err)
		}
		if kind != websocket.MessageText {
			return nil, fmt.Errorf("answer %d is in a binary frame", len(answers)+1)
		}
		answers = append(answers, data)
	}
	return answers, nil
}

func (p *player) dial(ctx context.Context, c *transcript.Case) (*websocket.Conn, error) {
	if ws := p.conns[key(c)]; ws != nil {
		return ws, nil
	}
	o := &websocket.DialOptions{HTTPClient: p.client}
	if p.deflate {
		o.CompressionMode = websocket.CompressionContextTakeover
	}
	ws, resp, err := websocket.Dial(ctx, p.at.base+c.WSRequest.Path, o)
	if resp != nil && resp.Body != nil {
		defer resp.Body.Close()
	}
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(frameMax)
	p.conns[key(c)] = ws
	return ws, nil
}

// offersDeflate reports whether a case is a handshake that offers compression. The connections
// of its sequence then offer it too.
func offersDeflate(c *transcript.Case) bool {
	if c.Transport != transcript.Handshake {
		return false
	}
	for name, value := range c.HandshakeRequest.Headers {
		if strings.EqualFold(name, "Sec-WebSocket-Extensions") && value != nil && strings.Contains(*value, "permessage-deflate") {
			return true
		}
	}
	return false
}

// handshake requests a WebSocket, and checks only the answer.
func (p *player) handshake(ctx context.Context, c *transcript.Case) (string, *transcript.Difference, error) {
	line := "WS " + c.HandshakeRequest.Path
	req, err := p.upgrade(ctx, c.HandshakeRequest)
	if err != nil {
		return line, nil, err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return line, nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		a, err := answerOf(resp)
		return line, c.CheckHandshake(a, noCode), err
	}
	if err := checkAccept(req, resp); err != nil {
		return line, nil, err
	}
	code := noCode
	if c.HandshakeResponse.CloseCode != nil {
		code = readClose(resp.Body)
	}
	return line, c.CheckHandshake(transcript.Answer{Status: resp.StatusCode, Header: resp.Header}, code), nil
}

// upgrade returns the handshake request. The headers of the case have precedence.
func (p *player) upgrade(ctx context.Context, r *transcript.HandshakeRequest) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.at.base+r.Path, nil)
	if err != nil {
		return nil, err
	}
	own, err := p.header(r.ClientHeaders, r.Headers)
	if err != nil {
		return nil, err
	}
	req.Header = http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"},
		"Sec-Websocket-Key": {base64.StdEncoding.EncodeToString([]byte(rand.Text()[:16]))},
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
func readClose(body io.ReadCloser) int {
	defer time.AfterFunc(closeWait, func() { _ = body.Close() }).Stop()
	head, code := make([]byte, 2), make([]byte, 2)
	if _, err := io.ReadFull(body, head); err != nil || head[0] != 0x88 {
		return noCode
	}
	if head[1] < 2 {
		return closeNone
	}
	if _, err := io.ReadFull(body, code); err != nil {
		return noCode
	}
	return int(binary.BigEndian.Uint16(code))
}
