package attack

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// The least numbers of attacks of a whole run.
const (
	malformedLeast = 250
	othersLeast    = 300
)

// malformedHTTP is the class of TestMalformedHTTP.
const malformedHTTP = "malformed HTTP"

// classes are the classes of the attacks, by the test that makes them. The table of docs/security.md
// has a row for each, which begins with its name.
var classes = map[string]string{
	"TestMalformedHTTP":                     malformedHTTP,
	"TestForgedRaftRequests":                "raft",
	"TestForgedHistories":                   "raft",
	"TestFloodsOfTheRaftPort":               "raft",
	"TestForgedJoins":                       "joins and certificates",
	"TestCertificateRoutes":                 "joins and certificates",
	"TestStrangersFillNoLog":                "joins and certificates",
	"TestPagesOfStrangers":                  "web pages of strangers",
	"TestFloodsOfTheHTTPPort":               "floods of the HTTP port",
	"TestWaitingClaimsOfSeveralClients":     "floods of the HTTP port",
	"TestWritesThatWaitForTheBucket":        "floods of the HTTP port",
	"TestTheLegacyListener":                 "legacy listener",
	"TestTheLegacyListenerForOtherNetworks": "legacy listener",
	"TestForgedTokens":                      "tokens",
	"TestStrangersTakeNoMemory":             "tokens",
	"TestTokensBeyondTheirScope":            "tokens",
	"TestStolenClaims":                      "tokens",
	"TestTokensThatAreRevokedMidStream":     "tokens",
	"TestStreamsBeyondTheirScope":           "streams",
	"TestStolenClaimsOverStreams":           "streams",
	"TestTokensThatExpireMidStream":         "streams",
	"TestForgedFramesAtAFollower":           "streams at a follower",
	"TestFloodsAtAFollower":                 "streams at a follower",
	"TestHooksThatPointInside":              "webhooks",
	"TestReceiversOfWebhooksOverTLS":        "webhooks",
	"TestReceiversOfWebhooksThatDoHarm":     "webhooks",
	"TestForgedLogs":                        "live logs",
	"TestFloodsOfLogs":                      "live logs",
	"TestEscapesInTheTerminal":              "live logs",
	"TestSandboxEscapes":                    "sandbox",
}

// counts has the number of attacks of this run, by class.
var counts = struct {
	sync.Mutex
	byClass map[string]int
}{byClass: make(map[string]int)}

// counted counts attacks of a test.
func counted(t *testing.T, n int) {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	class, ok := classes[test]
	if !ok {
		t.Errorf("the attacks of %s have no class", test)
	}
	counts.Lock()
	defer counts.Unlock()
	counts.byClass[class] += n
}

// counting prints the number of attacks at the end, and fails if a whole run has too few.
type counting struct{ *testing.M }

// Run implements goleak.TestingM.
func (c counting) Run() int {
	code := c.M.Run()
	all := 0
	names := make([]string, 0, len(counts.byClass))
	for class, n := range counts.byClass {
		names = append(names, class)
		all += n
	}
	slices.Sort(names)
	for _, class := range names {
		fmt.Printf("%5d  %s\n", counts.byClass[class], class)
	}
	malformed := counts.byClass[malformedHTTP]
	fmt.Printf("%5d  attacks in all, %d of them other than %s\n", all, all-malformed, malformedHTTP)
	if whole := flag.Lookup("test.run").Value.String()+flag.Lookup("test.skip").Value.String() == ""; whole && code == 0 &&
		(malformed < malformedLeast || all-malformed < othersLeast) {
		fmt.Fprintf(os.Stderr, "there are too few attacks: at least %d of %s and %d others are wanted\n", malformedLeast, malformedHTTP, othersLeast)
		return 1
	}
	if code == 0 && !documented() {
		return 1
	}
	return code
}

// documented compares the numbers of this run with those of the documentation. A run of some tests, or
// on a machine that skips some, has fewer.
func documented() bool {
	const page = "../../docs/security.md"
	text, err := os.ReadFile(page)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return false
	}
	ok := true
	for class, n := range counts.byClass {
		if class == malformedHTTP { // it grows with the operations
			continue
		}
		row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(class) + `[^|]*\| (\d+) \|$`).FindSubmatch(text)
		if row == nil {
			fmt.Fprintf(os.Stderr, "%s has no number of attacks of the class %s\n", page, class)
			ok = false
			continue
		}
		if said, _ := strconv.Atoi(string(row[1])); said < n { // it has digits only
			fmt.Fprintf(os.Stderr, "%s has %d attacks of the class %s; there are %d\n", page, said, class, n)
			ok = false
		}
	}
	return ok
}

var _ goleak.TestingM = counting{}
