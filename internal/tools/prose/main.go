// Command prose measures the language of this repository against the rules that a
// machine can check: how sentences begin, which words are forbidden, and whether a
// doc comment starts with the name that it documents.
//
// Usage:
//
//	prose [-ceilings FILE] [-worst N] [ROOT]
//
// It prints one row for each package. With -ceilings it exits with status 1 if a
// package has more findings than its row of FILE allows. A package without a row
// has the limits of newPackage, so that the debt of old packages can only shrink.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"sort"
	"text/tabwriter"
)

func main() {
	ceilings := flag.String("ceilings", "", "the `file` with the most findings that each package may have")
	update := flag.Bool("update", false, "write the present figures to the file of -ceilings, where they are lower")
	worst := flag.Int("worst", 0, "how many findings to print, those of the most frequent kind first")
	flag.Parse()
	root := "."
	if flag.NArg() > 0 {
		root = flag.Arg(0)
	}
	if err := run(os.Stdout, root, *ceilings, *update, *worst); err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
}

// run measures all packages below root and compares them with the ceilings.
func run(w io.Writer, root, ceilings string, update bool, worst int) error {
	packages, err := measure(root)
	if err != nil {
		return err
	}
	printTable(w, packages)
	printWorst(w, packages, worst)
	if ceilings == "" {
		return nil
	}
	limits, err := readCeilings(ceilings)
	if err != nil {
		return err
	}
	if update {
		return writeCeilings(ceilings, limits.lowered(packages))
	}
	return limits.check(packages)
}

// printTable prints the figures of each package and their sums.
func printTable(w io.Writer, packages []*figures) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "docs\topeners\t%\tname\twords\tidentifiers\tpackage\t")
	var sum figures
	for _, p := range packages {
		printRow(t, p)
		sum.add(p)
	}
	sum.dir = "all"
	printRow(t, &sum)
	t.Flush()
}

func printRow(w io.Writer, p *figures) {
	fmt.Fprintf(w, "%d\t%d\t%.1f\t%d\t%d\t%d\t%s\t\n",
		p.docs, p.count[opener], p.share(opener), p.count[docName], p.count[word], p.count[identifier], p.dir)
}

// printWorst prints n findings of the packages that have the most.
func printWorst(w io.Writer, packages []*figures, n int) {
	byCount := append([]*figures(nil), packages...)
	sort.SliceStable(byCount, func(i, j int) bool { return len(byCount[i].findings) > len(byCount[j].findings) })
	for _, p := range byCount {
		for _, f := range p.findings {
			if n == 0 {
				return
			}
			fmt.Fprintln(w, f)
			n--
		}
	}
}
