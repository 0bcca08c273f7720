package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"osqueue/tests/replay/player"
	"osqueue/tests/replay/transcript"
)

// options are the settings of the command line.
type options struct {
	player player.Options
	config string
	files  []string
}

var (
	errFailed = errors.New("some cases failed")
	errUsage  = errors.New("see -help")
)

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		err = run(ctx, o, os.Stdout)
		stop()
	}
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case errors.Is(err, errUsage):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(1)
	}
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	var ws, slow bool
	f := flag.NewFlagSet("replay", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.player.Servers.Base, "url", "", "the node that gets the requests, as in http://127.0.0.1:8080")
	f.StringVar(&o.player.Servers.Leader, "leader", "", "the node that leads, if it is another one")
	f.StringVar(&o.player.Servers.Follower, "follower", "", "a node that does not lead, for the cases that ask for one")
	f.StringVar(&o.config, "config", transcript.ConfigDefault, "the set-up of the node: cases that need another one are skipped")
	f.BoolVar(&ws, "ws", true, "play WebSockets, too")
	f.BoolVar(&slow, "slow", true, "play slow sequences, too")
	f.BoolVar(&o.player.Exact, "exact", false, "allow no members beside the recorded ones, on native routes either")
	f.Usage = func() {
		fmt.Fprintln(out, "usage: replay -url URL [flags] FILE…")
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, errUsage
	}
	o.files, o.player.NoWS, o.player.NoSlow = f.Args(), !ws, !slow
	if o.player.Servers.Base == "" || len(o.files) == 0 {
		f.Usage()
		return o, errUsage
	}
	for _, url := range []*string{&o.player.Servers.Base, &o.player.Servers.Leader, &o.player.Servers.Follower} {
		*url = strings.TrimSuffix(*url, "/")
	}
	return o, nil
}

func run(ctx context.Context, o options, out io.Writer) error {
	// All files are parsed before the first request, so that an unknown word is reported at
	// once.
	var files []transcript.File
	for _, path := range o.files {
		f, err := transcript.LoadFile(path)
		if err != nil {
			return err
		}
		files = append(files, f)
	}
	p := player.New(o.player)
	defer p.Close()
	failed := false
	for _, f := range files {
		t, err := playFile(ctx, p, f, o.config)
		if err != nil {
			return err
		}
		t.print(out, f.Name)
		failed = failed || t.count[player.Fail] > 0
	}
	if failed {
		return errFailed
	}
	return nil
}

// playFile plays the cases of a file for the given setup, and skips the others.
func playFile(ctx context.Context, p *player.Player, f transcript.File, config string) (*counts, error) {
	t := newCounts()
	for i := range f.Cases {
		switch c := &f.Cases[i]; {
		case !c.Played():
			t.add(player.Result{File: f.Name, Case: c, Outcome: player.Skipped, Why: "it is data for other tests (" + c.Transport + ")"})
		case c.Config != config:
			t.add(player.Result{File: f.Name, Case: c, Outcome: player.Skipped, Why: "it needs the set-up " + c.Config})
		}
	}
	results, err := p.Play(ctx, f, func(c *transcript.Case) bool { return c.Config == config })
	for i := range results {
		t.add(results[i])
	}
	return t, err
}
