package view

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"osqueue/client"
	"osqueue/internal/web"
)

// Moment is a moment in the history of the queue that a flag gives.
type Moment struct {
	client.Moment
	Text string // as it was given; "": the present
}

// MomentVar binds the flag --at.
func MomentVar(flags *pflag.FlagSet, to *Moment, help string) {
	flags.Var(Value(to, "LSN|time", func(text string) (Moment, error) { return parseMoment(text, time.Now()) }, nil), "at",
		help+" an LSN (12-90210), a time (2026-12-24T18:00:00Z, '2026-12-24 18:00' local time), or a duration before now (15m)")
}

func parseMoment(text string, now time.Time) (Moment, error) {
	if m, err := client.ParseLSN(text); err == nil {
		return Moment{m, text}, nil
	}
	at, err := ParseTime(strings.TrimPrefix(text, "-"), true, now)
	switch {
	case err != nil:
		err = fmt.Errorf("%q is neither an LSN nor a time: "+
			"write it as in 12-90210, 2026-12-24T18:00:00Z, '2026-12-24 18:00' (local time) or 15m (ago)", text)
	case at.After(now):
		err = fmt.Errorf("%s is in the future", at.Format(time.RFC3339))
	}
	return Moment{client.Moment{Time: at}, text}, err
}

// At adds --at and --bucket to a command that only reads. With --at the command shows an earlier
// state, with --bucket the state in a bucket, without a cluster.
func (g *Globals) At(cmd *cobra.Command) *cobra.Command {
	m := new(Moment)
	MomentVar(cmd.Flags(), m, "show the state at")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if m.Text == "" {
			return run(cmd, args)
		}
		if err := onlyOnce(cmd, "--at "+m.Text+": an earlier state does not change"); err != nil {
			return err
		}
		g.at = m.Time
		if g.bucketAPI == nil { // which has the state of that moment only
			cmd.SetContext(client.At(cmd.Context(), m.Moment))
		}
		return run(cmd, args)
	}
	return g.inBucket(cmd, m)
}

// InBucket adds --bucket to a command that only reads. With it the command shows the queue in a bucket,
// without a cluster.
func (g *Globals) InBucket(cmd *cobra.Command) *cobra.Command { return g.inBucket(cmd, new(Moment)) }

func (g *Globals) inBucket(cmd *cobra.Command, at *Moment) *cobra.Command {
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
		return g.WithBucket(cmd.Context(), g, bucket, *at, g.Timeout, func(ctx context.Context, api http.Handler) error {
			g.UseAPI(api)
			cmd.SetContext(ctx)
			return run(cmd, args)
		})
	}
	return cmd
}

// UseAPI lets the command ask an API in this process in place of a cluster.
func (g *Globals) UseAPI(api http.Handler) { g.bucketAPI = api }

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
