package player

import (
	"context"
	"fmt"
	"strings"

	"github.com/coder/websocket"

	"osqueue/tests/replay/transcript"
)

// conn is one WebSocket of a sequence.
type conn struct{ *websocket.Conn }

func (c *conn) close() { _ = c.CloseNow() }

// frameMax bounds a message from the server.
const frameMax = 16 << 20

func (p *Player) ws(ctx context.Context, c *transcript.Case) (string, *transcript.Difference, error) {
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

func (p *Player) drop(c *transcript.Case) {
	if ws := p.conns[key(c)]; ws != nil {
		ws.close()
		delete(p.conns, key(c))
	}
}

func (p *Player) ask(ctx context.Context, c *transcript.Case, frames []transcript.Frame) ([][]byte, error) {
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

func (p *Player) dial(ctx context.Context, c *transcript.Case) (*conn, error) {
	if ws := p.conns[key(c)]; ws != nil {
		return ws, nil
	}
	o := &websocket.DialOptions{HTTPClient: p.dialer}
	if p.deflate {
		o.CompressionMode = websocket.CompressionContextTakeover
	}
	ws, resp, err := websocket.Dial(ctx, p.at.Base+c.WSRequest.Path, o)
	if resp != nil && resp.Body != nil {
		defer resp.Body.Close()
	}
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(frameMax)
	p.conns[key(c)] = &conn{ws}
	return p.conns[key(c)], nil
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
