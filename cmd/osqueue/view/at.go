package view

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	"osqueue/internal/web"
)

// moment is a flag whose value is a moment in the history of the queue.
type moment struct {
	client.Moment
	text string // as it was given
}

// String implements pflag.Value.
func (m *moment) String() string { return m.text }

// Type implements pflag.Value.
func (*moment) Type() string { return "LSN|time" }

// Set implements pflag.Value.
func (m *moment) Set(text string) (err error) {
	m.text = text
	if m.Moment, err = client.ParseLSN(text); err == nil {
		return nil
	}
	at, err := ParsePast(text, time.Now())
	m.Moment = client.Moment{Time: at}
	return err
}

// At adds --at and --bucket to a command that only reads. With --at the command shows an earlier
// state, with --bucket the state in a bucket, without a cluster.
func (g *Globals) At(cmd *cobra.Command) *cobra.Command {
	m := new(moment)
	cmd.Flags().Var(m, "at", "show the state at "+AtHelp)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if m.text == "" {
			return run(cmd, args)
		}
		if err := onlyOnce(cmd, "--at "+m.text+": an earlier state does not change"); err != nil {
			return err
		}
		g.at = m.Time
		if g.bucketAPI == nil { // which has the state of that moment only
			cmd.SetContext(client.At(cmd.Context(), m.Moment))
		}
		return run(cmd, args)
	}
	return g.InBucket(cmd)
}

// InBucket adds --bucket to a command that only reads. With it the command shows the queue in a bucket,
// without a cluster.
func (g *Globals) InBucket(cmd *cobra.Command) *cobra.Command {
	bucket := ""
	cmd.Flags().StringVar(&bucket, "bucket", "", "show the queue in this bucket, without a cluster: a URL as of osqueue inspect")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if bucket == "" {
			return run(cmd, args)
		}
		if err := onlyOnce(cmd, "--bucket "+bucket+": the bucket is read once"); err != nil {
			return err
		}
		at := ""
		if f := cmd.Flags().Lookup("at"); f != nil {
			at = f.Value.String()
		}
		return g.WithBucket(cmd.Context(), g, bucket, at, g.Timeout, func(ctx context.Context, api http.Handler) error {
			g.bucketAPI = api
			cmd.SetContext(ctx)
			return run(cmd, args)
		})
	}
	return cmd
}

// onlyOnce returns an error if the command repeats itself.
func onlyOnce(cmd *cobra.Command, why string) error {
	for _, name := range []string{"watch", "follow"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			return Usagef("%s; remove --%s", why, name)
		}
	}
	return nil
}

// handlerTransport calls a handler in this process.
type handlerTransport struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.RequestURI, in.Body = r.URL.RequestURI(), http.NoBody // it only reads
	a := web.NewAnswer(make(http.Header))
	if !a.Of(t, in) {
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{StatusCode: a.Status, Header: a.Header(), Body: io.NopCloser(&a.Body), ContentLength: int64(a.Body.Len()), Request: r}, nil
}

// Now returns the time from which ages in the output count: that of the state that --at
// selects by a time, otherwise the present.
func (g *Globals) Now() time.Time {
	if !g.at.IsZero() {
		return g.at
	}
	return time.Now()
}
