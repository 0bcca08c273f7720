package transcript

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json"
)

// File is a file of cases.
type File struct {
	Name  string // the system and the file: osqueue/rest_submit.json
	Cases []Case
}

// leastFiles is less than the number of files: a missing one would be played as well as the others.
const leastFiles = 35

// Recordings reads all recordings, which are in the folder of each system below compat.
func Recordings(compat string) ([]File, error) {
	paths, err := filepath.Glob(filepath.Join(compat, "*", "testdata", "transcripts", "*.json"))
	if err != nil || len(paths) < leastFiles {
		return nil, fmt.Errorf("%d files of recordings below %s: %w", len(paths), compat, err)
	}
	var files []File
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		cases, err := Load(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		system := filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(path))))
		files = append(files, File{Name: system + "/" + filepath.Base(path), Cases: cases})
	}
	return files, nil
}

// Load parses the cases of a file. An unknown field or value is an error.
func Load(data []byte) (cases []Case, err error) {
	if err := strict(data, &cases); err != nil {
		return nil, err
	}
	if len(cases) == 0 {
		return nil, errors.New("there are no cases")
	}
	names := make(map[string]bool)
	for i := range cases {
		c := &cases[i]
		err := c.parse()
		if err == nil {
			err = errors.Join(c.checkPlaces(), c.check())
		}
		if err != nil {
			return nil, fmt.Errorf("case %d, %q: %w", i+1, c.Name, err)
		}
		if names[c.Name] {
			return nil, fmt.Errorf("case %d: the name %q is there twice", i+1, c.Name)
		}
		names[c.Name] = true
	}
	return cases, nil
}

// strict decodes JSON and refuses unknown fields.
func strict(data []byte, into any) error {
	return json.Unmarshal(data, into, json.RejectUnknownMembers(true), numbers)
}

// parse decodes request and response by their transport.
func (c *Case) parse() error {
	var head struct {
		Transport string `json:"transport"`
	}
	if err := json.Unmarshal(c.Request, &head); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	c.Transport, c.Config = cmp.Or(head.Transport, HTTP), cmp.Or(c.Config, ConfigDefault)
	in, out, err := c.exchange()
	if err != nil {
		return err
	}
	if err := strict(c.Request, in); err != nil {
		return fmt.Errorf("request: %w", err)
	}
	if err := strict(c.Response, out); err != nil {
		return fmt.Errorf("response: %w", err)
	}
	return nil
}

// exchange returns the pair of the case's transport.
func (c *Case) exchange() (request, response any, err error) {
	switch c.Transport {
	case HTTP:
		c.HTTPRequest, c.HTTPResponse = new(HTTPRequest), new(HTTPResponse)
		return c.HTTPRequest, c.HTTPResponse, nil
	case WS:
		c.WSRequest, c.WSResponse = new(WSRequest), new(WSResponse)
		return c.WSRequest, c.WSResponse, nil
	case Handshake:
		c.HandshakeRequest, c.HandshakeResponse = new(HandshakeRequest), new(HandshakeResponse)
		return c.HandshakeRequest, c.HandshakeResponse, nil
	case Start:
		c.StartResponse = new(StartResponse)
		return &struct {
			Transport string `json:"transport"`
		}{}, c.StartResponse, nil
	case Client:
		c.ClientRequest, c.ClientResponse = new(ClientRequest), new(ClientResponse)
		return c.ClientRequest, c.ClientResponse, nil
	case Election, ElectionRace, Document, Raft, Timeline: // data for other tests, and for people
		return new(map[string]any), new(map[string]any), nil
	}
	return nil, nil, fmt.Errorf("the transport %q is not known", c.Transport)
}

var configs = []string{ConfigDefault, ConfigShortExpiry, ConfigSeeded, ConfigThrottled, ConfigStorageFail}

// check refuses a case that could not be played as intended.
func (c *Case) check() error {
	switch {
	case c.Name == "":
		return errors.New("it has no name")
	case !slices.Contains(configs, c.Config):
		return fmt.Errorf("the config %q is not known", c.Config)
	case c.Played() && c.Seq == "":
		return errors.New("it belongs to no sequence")
	case c.Seed != nil && c.Transport != Start:
		return errors.New("only a start has a seed")
	case min(c.WaitMs, c.TimeoutMs, c.EventuallyMs) < 0:
		return errors.New("a time is negative")
	}
	switch c.Transport {
	case HTTP:
		return errors.Join(c.HTTPRequest.check(), c.HTTPResponse.check())
	case WS:
		return errors.Join(c.WSRequest.check(), c.WSResponse.check(c.WSRequest))
	}
	return nil
}

func (r *HTTPRequest) check() error {
	bodies := count(r.Body != nil, r.BodyText != nil, r.BodyBase64 != nil && r.Proto == nil, r.BodyGen != nil, r.Proto != nil)
	switch {
	case r.Method == "" || r.Path == "":
		return errors.New("the request has no method or no path")
	case bodies > 1:
		return errors.New("the request has several bodies")
	case r.Target != "" && r.Target != TargetFollower:
		return fmt.Errorf("the target %q is not known", r.Target)
	case r.Envelope && r.Proto == nil:
		return errors.New("the request has an envelope and no message")
	case r.Proto != nil:
		_, err := messageType(r.Proto.Message)
		return err
	}
	return nil
}

func (r *HTTPResponse) check() error {
	bodies := count(r.Body != nil, r.BodyText != nil, r.BodyBase64 != nil && r.Proto == nil, r.Proto != nil)
	switch {
	case (r.Status == 0) == (r.Parallel == nil):
		return errors.New("the response has to have either a status or several")
	case bodies > 1:
		return errors.New("the response has several bodies")
	case r.GRPCStatus != nil && !r.Envelope, r.Envelope && r.Proto == nil:
		return errors.New("the response has only a part of what gRPC-Web answers")
	case r.Proto != nil:
		_, err := messageType(r.Proto.Message)
		return err
	}
	return nil
}

func (r *WSRequest) check() error {
	if n := count(r.Message != nil, r.MessageText != nil, r.MessageBase64 != nil, r.MessageGen != nil, r.Messages != nil); n != 1 {
		return fmt.Errorf("the request has %d messages", n)
	}
	return nil
}

func (r *WSResponse) check(q *WSRequest) error {
	if (r.Messages != nil) != (q.Messages != nil) || (r.Message != nil) == (r.Messages != nil) {
		return errors.New("there has to be an answer to each message")
	}
	return nil
}

func count(there ...bool) int {
	n := 0
	for _, t := range there {
		if t {
			n++
		}
	}
	return n
}
