package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"osqueue/cmd/osqueue/view"
	"osqueue/internal/web"
)

// newUICommand returns the command that links to the dashboard.
func newUICommand(g *view.Globals) *cobra.Command {
	address, bucket := "", ""
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "Print a link to the dashboard, which signs your browser in",
		Long: `Prints a link to the dashboard of a node. If the cluster requires tokens, the link signs your
browser in with the token of this command: it works once, within ten minutes, on that node.
If the cluster has its own CA, the browser warns until you import the CA.

With --bucket the command serves the dashboard itself, on a port of this machine, for the queue in
a bucket and without a cluster, until Ctrl-C. It shows the state in the bucket, and changes nothing.
All users of this machine can read it there.`,
		Example: `  osqueue ui
  osqueue ui --servers 10.0.0.2:8080
  osqueue ui --bucket s3://jobs/prod?region=eu-central-1
  osqueue ui --servers n1:8080 --address 127.0.0.1:8080   # the port that a container publishes`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if bucket != "" {
				if address == "" {
					address = "127.0.0.1:0"
				}
				if host, _, err := net.SplitHostPort(address); err != nil || host != "localhost" && !net.ParseIP(host).IsLoopback() {
					return view.Usagef("--address %s: write host:port on loopback: everybody who reaches it sees the queue", address)
				}
				return g.WithBucket(cmd.Context(), g, bucket, view.Moment{}, g.Timeout, func(ctx context.Context, h http.Handler) error {
					return serveUI(ctx, g, h, address)
				})
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), g.Timeout)
			defer cancel()
			link, err := linkToUI(ctx, g, address)
			if err != nil {
				return err
			}
			return printLink(g, link)
		},
	}
	cmd.Flags().StringVar(&address, "address", "", "host:port or URL by which the browser reaches the one node of --servers (default: as in --servers); with --bucket the host:port on loopback to serve it on (default: a free port)")
	cmd.Flags().StringVar(&bucket, "bucket", "", "serve the dashboard for the queue in this bucket, without a cluster")
	return cmd
}

func printLink(g *view.Globals, link string) error {
	return g.Print(map[string]string{"url": link}, "%s\n", link)
}

// headTimeout bounds the head of a request to the dashboard of a bucket.
const headTimeout = 5 * time.Second

// serveUI serves the dashboard of a bucket on loopback until ctx ends.
func serveUI(ctx context.Context, g *view.Globals, h http.Handler, address string) error {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	var hosts web.Hosts
	hosts.Add(ln.Addr().String())
	stop := web.Start(&http.Server{Handler: web.Guard(web.GuardConfig{Hosts: hosts}, h), ReadHeaderTimeout: headTimeout}, ln)
	defer stop()
	if err := printLink(g, "http://"+ln.Addr().String()+"/ui"); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// linkToUI returns the link of the first node that makes one. With an address it is that of the
// only node, for the browser.
func linkToUI(ctx context.Context, g *view.Globals, address string) (string, error) {
	c, err := g.Client()
	if err != nil {
		return "", err
	}
	servers := c.Servers()
	c.Close()
	if socket, err := g.Socket(); err == nil && socket != "" && address == "" {
		return "", view.Usagef("--address is missing: the address by which the browser reaches the node of %s", socket)
	}
	if address != "" && len(servers) != 1 {
		return "", view.Usagef("--address is that of one node: name it with --servers")
	}
	hc, err := g.HTTPClient()
	if err != nil {
		return "", err
	}
	defer hc.CloseIdleConnections()
	var errs []error
	for _, server := range servers {
		path, err := askForLink(ctx, hc, server)
		if err == nil && address == "" {
			return server + path, nil
		}
		if err == nil {
			scheme, _, _ := strings.Cut(server, "://")
			if !strings.Contains(address, "://") {
				address = scheme + "://" + address
			}
			return strings.TrimSuffix(address, "/") + path, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", server, err))
	}
	return "", errors.Join(errs...)
}

// linkAnswerMax bounds the answer of a node, in bytes.
const linkAnswerMax = 4096

func askForLink(ctx context.Context, hc *http.Client, server string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server+"/ui/link", nil)
	if err != nil {
		return "", err
	}
	resp, err := hc.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, linkAnswerMax))
	if err != nil {
		return "", err
	}
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return "", errors.New("the node has no dashboard (serve --ui)")
	default:
		return "", fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(body)))
	}
	var out struct {
		Path string `json:"path"`
	}
	if err := json.Unmarshal(body, &out); err != nil || !strings.HasPrefix(out.Path, "/ui") {
		return "", errors.New("the server is not a node of osqueue")
	}
	return out.Path, nil
}
