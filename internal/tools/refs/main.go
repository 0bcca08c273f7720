// Command refs measures how well the files of a package can be read in an order: it counts
// the references from file to file, and those that run against the best order that it finds.
//
// Usage:
//
//	refs [-v] DIR...
//
// One file refers to another if it uses at least one name that the other defines. In an order,
// such a reference should point to a file that comes earlier. With -v the order is printed,
// and each reference against it with the names. The directories are packages of one module.
package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	verbose := flag.Bool("v", false, "print the order and the references against it")
	flag.Parse()
	if err := run(os.Stdout, flag.Args(), *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "refs:", err)
		os.Exit(1)
	}
}

// run prints one row for each directory.
func run(w io.Writer, dirs []string, verbose bool) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tab, "package\tfiles\treferences\tagainst\tshare\t")
	var details strings.Builder
	for _, dir := range dirs {
		refs, err := references(dir)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		order := bestOrder(refs)
		bad := against(refs, order)
		share := 0.0
		if len(refs) > 0 {
			share = 100 * float64(len(bad)) / float64(len(refs))
		}
		fmt.Fprintf(tab, "%s\t%d\t%d\t%d\t%.0f %%\t\n", dir, len(order), len(refs), len(bad), share)
		if verbose {
			fmt.Fprintf(&details, "\n%s: %s\n", dir, strings.Join(order, " "))
			for _, r := range bad {
				fmt.Fprintf(&details, "  %s -> %s: %s\n", r.from, r.to, strings.Join(slices.Sorted(maps.Keys(refs[r])), " "))
			}
		}
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, details.String())
	return err
}
