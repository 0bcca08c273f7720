package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each test that docs/security.md and docs/findings.md name exists.
func TestPagesNameTestsThatExist(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	var all strings.Builder
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		code, err := os.ReadFile(path)
		all.Write(code)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for page, least := range map[string]int{"security.md": 50, "findings.md": 100} {
		text, err := os.ReadFile(filepath.Join(root, "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\b(Test|Fuzz)[A-Z]\w+`).FindAllString(string(text), -1)
		for _, name := range names {
			if !strings.Contains(all.String(), "\nfunc "+name+"(") {
				t.Errorf("docs/%s names %s, which is not there", page, name)
			}
		}
		if len(names) < least {
			t.Errorf("docs/%s names %d tests", page, len(names))
		}
	}
}

var (
	docLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	docHeading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notAnchor  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors returns the anchors of the headings of a page, as GitHub makes them.
func anchors(page []byte) map[string]bool {
	out := make(map[string]bool)
	for _, h := range docHeading.FindAllSubmatch(page, -1) {
		out[strings.ReplaceAll(notAnchor.ReplaceAllString(strings.ToLower(string(h[1])), ""), " ", "-")] = true
	}
	return out
}

// Each link of a page to another page or to a file of the tree leads to it, and its anchor to a heading.
func TestLinksOfThePages(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	pages, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range docLink.FindAllSubmatch(text, -1) {
			link := string(m[1])
			if strings.Contains(link, "://") {
				continue
			}
			links++
			file, anchor, _ := strings.Cut(link, "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: the link %s leads nowhere: %v", page, link, err)
				continue
			}
			if anchor == "" {
				continue
			}
			other, err := os.ReadFile(target)
			if err != nil {
				t.Errorf("%s: the link %s: %v", page, link, err)
			} else if !anchors(other)[anchor] {
				t.Errorf("%s: the link %s names no heading", page, link)
			}
		}
	}
	if len(pages) < 25 || links < 150 {
		t.Errorf("%d pages with %d links were read", len(pages), links)
	}
}
