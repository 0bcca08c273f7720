package cost

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func s3Plan(budget Money) Plan {
	return Plan{Budget: budget, Prices: DefaultPrices("s3"), Heartbeat: 3 * time.Second, BrokerTimeout: 10 * time.Second}
}

func TestBudgetThatLasts(t *testing.T) {
	p := s3Plan(4_320_000_000)
	if err := p.Check(); err != nil || p.Fixed() != p.Budget {
		t.Fatalf("%v; fixed %s", err, p.Fixed())
	}
	none := s3Plan(0)
	free := Plan{Budget: 1, Heartbeat: time.Millisecond, Inbox: time.Second}
	if err, err2 := none.Check(), free.Check(); err != nil || err2 != nil {
		t.Fatalf("no budget: %v; no prices: %v", err, err2)
	}
}

func TestBudgetThatDoesNotLast(t *testing.T) {
	p := s3Plan(2 * Dollar)
	if got, want := p.Check().Error(), "a bucket budget of $2.00 a month is less than an idle month costs, $4.32: "+
		"a heartbeat every 3s makes 864000 writes in 30 days, at $0.005 for 1000 $4.32. "+
		"Give --bucket-budget 4.32usd, or --broker-heartbeat 6.5s with --broker-timeout 19.5s"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	p = s3Plan(5 * Dollar)
	p.Inbox = 10 * time.Second
	if got, want := p.Check().Error(), "a bucket budget of $5.00 a month is less than an idle month costs, $5.616: "+
		"a heartbeat every 3s makes 864000 writes in 30 days, at $0.005 for 1000 $4.32; "+
		"a listing of the inbox every 10s makes 259200 listings, at $0.005 for 1000 $1.296. "+
		"Give --bucket-budget 5.62usd, or --broker-heartbeat 3.5s, or --inbox-idle-interval 19.1s"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	p = s3Plan(1)
	if got := p.Check().Error(); !strings.HasSuffix(got, "Give --bucket-budget 4.32usd") {
		t.Errorf("where nothing else helps: %s", got)
	}
}

var ways = regexp.MustCompile(`--(bucket-budget|broker-heartbeat|inbox-idle-interval) ([0-9a-z.]+)`)

// TestAdviceHelps follows each advice of a refusal alone.
func TestAdviceHelps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := s3Plan(Money(rapid.Int64Range(1, int64(6*Dollar)).Draw(t, "budget")))
		p.Heartbeat = time.Duration(rapid.IntRange(100, 30_000).Draw(t, "heartbeat")) * time.Millisecond
		p.Inbox = time.Duration(rapid.IntRange(0, 60).Draw(t, "inbox")) * time.Second
		err := p.Check()
		if (err != nil) != (p.Fixed() > p.Budget) {
			t.Fatalf("%s of %s: %v", p.Fixed(), p.Budget, err)
		}
		if err == nil {
			return
		}
		for _, way := range ways.FindAllStringSubmatch(err.Error(), -1) {
			q := p
			switch way[1] {
			case "bucket-budget":
				q.Budget, err = ParseMoney(way[2])
			case "broker-heartbeat":
				q.Heartbeat, err = time.ParseDuration(way[2])
			default:
				q.Inbox, err = time.ParseDuration(way[2])
			}
			if err != nil || q.Check() != nil {
				t.Fatalf("%s does not help: %v, %v", way[0], err, q.Check())
			}
		}
	})
}
