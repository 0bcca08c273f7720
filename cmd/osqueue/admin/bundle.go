package admin

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

func newDebugCommand(g *view.Globals) *cobra.Command {
	cmd := view.NewGroup("debug", "Collect what helps to find a fault", "Collects what helps to find a fault.")
	cmd.AddCommand(newBundleCommand(g))
	return cmd
}

func newBundleCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "bundle [FILE]",
		Short: "Write logs, metrics and profiles of all nodes into an archive",
		Long: `Writes a tar.gz archive with the findings of osqueue doctor and, from every node, its status, metrics,
settings, the end of its log (256 KiB), goroutines, heap, and a CPU profile of 5 s. It has no payloads,
tokens and keys; it has names of jobs' types, of workers and of hosts. It needs a token of the role admin.
With --data only the node of that directory is asked, over its admin socket.

All nodes are asked at the same time, each part for at most --timeout and with at most 16 MiB. A part
that a node does not give is in the archive as FILE.error, with the reason.

FILE must not exist; without it the name is osqueue-debug-TIME.tar.gz in this directory.`,
		Example: `  osqueue debug bundle --token-file admin.token
  osqueue debug bundle --data /var/lib/osqueue n1.tar.gz`,
		RunE: func(cmd *cobra.Command, args []string) error {
			now := time.Now().UTC()
			file := "osqueue-debug-" + now.Format("20060102-150405") + ".tar.gz"
			if len(args) == 1 {
				file = args[0]
			}
			return g.Open(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				b := &bundle{now: now}
				if err := b.save(ctx, g, c, file); err != nil {
					return err
				}
				return g.Print(map[string]any{"file": file, "parts": len(b.parts), "missing": b.missing},
					"%s: %s, %d of them missing\n", file, view.Plural(len(b.parts), "part"), b.missing)
			})
		},
	}
}

// cpuSeconds is the length of the CPU profiles.
const cpuSeconds = 5

// nodeParts are the files of a node in the archive, and the requests for them.
var nodeParts = []struct {
	file, target string
	takes        time.Duration
}{
	{"status.json", v1.PathStatus, 0},
	{"metrics.txt", v1.PathMetrics, 0},
	{"settings.yaml", "/debug/settings", 0},
	{"log.txt", "/debug/log", 0},
	{"goroutines.txt", "/debug/pprof/goroutine?debug=1", 0},
	{"heap.pprof", "/debug/pprof/heap", 0},
	{"cpu.pprof", fmt.Sprintf("/debug/pprof/profile?seconds=%d", cpuSeconds), cpuSeconds * time.Second},
}

// bundle is the content of an archive.
type bundle struct {
	now time.Time

	mu      sync.Mutex
	parts   []part
	missing int // of parts
}

// part is a file in the archive.
type part struct {
	name string
	data []byte
}

// add adds a file, or the reason why it is missing. Safe for concurrent use.
func (b *bundle) add(name string, data []byte, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.missing++
		name, data = name+".error", []byte(err.Error()+"\n")
	}
	b.parts = append(b.parts, part{name, data})
}

// collect asks all nodes at the same time.
func (b *bundle) collect(ctx context.Context, g *view.Globals, c *client.Client) error {
	hc, err := g.HTTPClient()
	if err != nil {
		return err
	}
	defer hc.CloseIdleConnections()
	s, err := gather(ctx, g, c, "")
	if err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "osqueue %s, %s\n", g.Version, b.now.Format(time.RFC3339))
	for _, f := range s.findings(allChecks) {
		fmt.Fprintln(&text, f)
	}
	b.add("doctor.txt", []byte(text.String()), nil)
	var wg sync.WaitGroup
	for _, n := range s.nodes {
		dir := dirOf(n.NodeStatus)
		if n.Err != nil {
			b.add(dir+"/status.json", nil, cause(n.Err))
			continue
		}
		for _, p := range nodeParts {
			wg.Go(func() {
				data, err := fetch(ctx, hc, n.Server+p.target, p.takes+g.Timeout)
				b.add(dir+"/"+p.file, data, err)
			})
		}
	}
	wg.Wait()
	slices.SortFunc(b.parts, func(x, y part) int { return strings.Compare(x.name, y.name) })
	return ctx.Err()
}

// dirOf returns the directory of a node in the archive: its name and its address, as a name of a file.
func dirOf(n client.NodeStatus) string {
	name := hostOf(n.Server)
	if n.Err == nil {
		name = n.Status.NodeID + "-" + name
	}
	return strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r == ':' || r < ' ' {
			return '_'
		}
		return r
	}, name)
}

// save collects the parts and writes the archive, for the user alone. The file must not exist. It is removed after a failure.
func (b *bundle) save(ctx context.Context, g *view.Globals, c *client.Client, file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("create the archive: %w", err)
	}
	if err = b.collect(ctx, g, c); err == nil {
		err = b.write(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(file)
		return fmt.Errorf("write the archive: %w", err)
	}
	return nil
}

func (b *bundle) write(w io.Writer) error {
	zip := gzip.NewWriter(w)
	archive := tar.NewWriter(zip)
	for _, p := range b.parts {
		head := &tar.Header{Name: path.Join("osqueue-debug", p.name), Mode: 0o600, Size: int64(len(p.data)), ModTime: b.now}
		if err := archive.WriteHeader(head); err != nil {
			return err
		}
		if _, err := archive.Write(p.data); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), zip.Close())
}
