package enroll

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"osqueue/internal/auth/certs"
	"osqueue/internal/sleep"
	"osqueue/internal/web"
)

// RefusedError is an answer that a repetition does not change.
type RefusedError struct{ Message string }

// Error implements error.
func (e *RefusedError) Error() string { return e.Message }

// misdirected is the answer of a node that does not lead.
type misdirected struct{ leader string }

func (e *misdirected) Error() string { return "it is not the active leader" }

// answerMax bounds the body of an answer, in bytes.
const answerMax = 1 << 20

// Post sends a request to one node. A *RefusedError is final; after other errors the request may be
// repeated.
func Post(ctx context.Context, client *http.Client, url string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := web.Do(client, req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(io.LimitReader(resp.Body, answerMax)); err != nil {
		return err
	}
	if resp.StatusCode == http.StatusOK {
		return json.Unmarshal(body, out)
	}
	r := web.ReadRefusal(body)
	text := fmt.Sprintf("%s: %s", resp.Status, r.Message)
	switch {
	case resp.StatusCode == http.StatusMisdirectedRequest:
		return &misdirected{r.Leader}
	case resp.StatusCode >= http.StatusInternalServerError:
		return errors.New(text)
	}
	return &RefusedError{text}
}

// Joiner is a new node that asks for its first certificate.
type Joiner struct {
	Token Token
	Dir   string // for the files
	// Waiting, unless nil, is called once when the request waits until it is signed.
	Waiting func()
}

// Joined is the result of a Joiner.
type Joined struct {
	Files  certs.Files
	Peers  string // value of --peers
	HTTP   string // address of the HTTP port of the new node
	Raft   string // address of its raft port
	Bucket string // URL
}

const (
	askEvery    = time.Second
	callTimeout = 10 * time.Second
)

// Join writes NAME.key, NAME.crt and ca.crt to the directory. It asks until it has the answer or
// ctx ends, and may be repeated: the key is kept.
func (j *Joiner) Join(ctx context.Context) (Joined, error) {
	at := func(name string) string { return filepath.Join(j.Dir, name) }
	files := certs.Files{CA: at(certs.CAFile), Cert: at(j.Token.Name + ".crt"), Key: at(j.Token.Name + ".key")}
	if _, err := certs.ReadList(files.Cert); err == nil {
		return Joined{}, fmt.Errorf("%s exists: choose another --dir, or move it away", files.Cert)
	}
	key, csr, err := files.NextKey() // not files.Key, which may be that of a revoked certificate
	if err != nil {
		return Joined{}, err
	}
	answer, err := j.ask(ctx, csr)
	if err != nil {
		return Joined{}, err
	}
	c, err := x509.ParseCertificate(answer.Certificate)
	if err != nil {
		return Joined{}, err
	}
	ca, err := certs.Parse([]byte(answer.CA))
	if err != nil {
		return Joined{}, err
	}
	if s, err := certs.SubjectOf(c); err != nil || !key.PublicKey.Equal(c.PublicKey) || s.Name != j.Token.Name || s.Kind != certs.Node {
		return Joined{}, fmt.Errorf("the answer is not a certificate of node %s for the key in %s", j.Token.Name, files.Key)
	}
	// The certificate last: with it the command is done.
	if err := certs.WriteCA(files.CA, ca); err != nil {
		return Joined{}, err
	}
	return Joined{Files: files, Peers: answer.Peers, HTTP: answer.HTTP, Raft: answer.Raft, Bucket: answer.Bucket}, files.Install(c)
}

// ask sends the request until it has an answer. It tries the addresses of the token, and of the
// leader that they name.
func (j *Joiner) ask(ctx context.Context, csr []byte) (answer Answer, err error) {
	told := false
	addresses := slices.Clone(j.Token.Addresses)
	for {
		var errs []error
		for i := 0; i < len(addresses); i++ {
			answer, err = j.askAt(ctx, addresses[i], csr)
			var refused *RefusedError
			var other *misdirected
			switch {
			case err == nil && !answer.Pending:
				return answer, nil
			case errors.As(err, &refused):
				return answer, fmt.Errorf("%s: %w", addresses[i], err)
			case errors.As(err, &other) && other.leader != "" && !slices.Contains(addresses, other.leader) && len(addresses) < 2*addressesMax:
				addresses = append(addresses, other.leader)
			case err == nil && !told && j.Waiting != nil:
				told = true
				j.Waiting()
			}
			if err == nil {
				addresses[0], addresses[i] = addresses[i], addresses[0]
				break
			}
			errs = append(errs, fmt.Errorf("%s: %w", addresses[i], err))
		}
		if !sleep.For(ctx, askEvery) {
			if len(errs) == 0 {
				errs = append(errs, errors.New("the request is not signed: run osqueue cert sign where ca.key is, and repeat this command"))
			}
			return answer, errors.Join(errs...)
		}
	}
}

// errPin means that a server has another CA than the token.
var errPin = &RefusedError{"its CA does not match the join token: another machine intercepts the connection, or the CA was replaced; nothing was sent to it"}

// askAt sends the request to one address. It first reads the CA from there, compares it with
// the pins, and sends the secret only over a connection that this CA vouches for.
func (j *Joiner) askAt(ctx context.Context, address string, csr []byte) (answer Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	pool, err := j.roots(ctx, address)
	if err != nil {
		return answer, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS13, RootCAs: pool, VerifyConnection: certs.VerifyNode,
	}}}
	err = Post(ctx, client, "https://"+address+JoinPath, CSR{Secret: j.Token.Secret.Text, Request: csr}, &answer)
	return answer, err
}

// roots returns the certificates of the CA at an address that have a pin of the token.
func (j *Joiner) roots(ctx context.Context, address string) (*x509.CertPool, error) {
	// The answer is compared with the pins, and nothing secret is sent.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, //nolint:gosec // see above
	}}}
	var answer Answer
	if err := Post(ctx, client, "https://"+address+CAPath, struct{}{}, &answer); err != nil {
		return nil, err
	}
	list, err := certs.Parse([]byte(answer.CA))
	if err != nil {
		return nil, err
	}
	known := slices.DeleteFunc(list, func(c *x509.Certificate) bool { return !slices.Contains(j.Token.Pins, certs.PinOf(c)) })
	if len(known) == 0 {
		return nil, errPin
	}
	return certs.Pool(known), nil
}
