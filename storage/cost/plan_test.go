package cost

import (
	"regexp"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func s3Plan(budget Money, heartbeat, inbox time.Duration) Plan {
	return Plan{Budget: budget, Prices: DefaultPrices("s3"), Repeated: []Repeated{
		{"a heartbeat", heartbeat, Counts{Replaces: 1}, "--broker-heartbeat"},
		{"a listing of the inbox", inbox, Counts{Lists: 1}, "--inbox-idle-interval"},
		{"a collection", 10 * time.Hour, Counts{Lists: 6, Gets: 2}, ""},
	}}
}

func TestBudgetThatLasts(t *testing.T) {
	p := s3Plan(4_322_217_600, 3*time.Second, 0)
	if err := p.Check(); err != nil || p.Fixed() != p.Budget {
		t.Fatalf("%v; fixed %s", err, p.Fixed())
	}
	none := s3Plan(0, 3*time.Second, 0)
	free := Plan{Budget: 1, Repeated: []Repeated{{"a heartbeat", time.Millisecond, Counts{Replaces: 1}, ""}}}
	if err, err2 := none.Check(), free.Check(); err != nil || err2 != nil {
		t.Fatalf("no budget: %v; no prices: %v", err, err2)
	}
}

func TestBudgetThatDoesNotLast(t *testing.T) {
	p := s3Plan(2*Dollar, 3*time.Second, 0)
	if got, want := p.Check().Error(), "a bucket budget of $2.00 a month is too small: at the slowest pace the bucket costs $4.3222176: "+
		"a heartbeat every 3s makes 864000 requests in 30 days, $4.32; a collection every 10h0m0s makes 576 requests in 30 days, $0.0022176. "+
		"Give a budget of at least $4.3222176, or a longer --broker-heartbeat"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	p = s3Plan(5*Dollar, 3*time.Second, 10*time.Second)
	if got, want := p.Check().Error(), "a bucket budget of $5.00 a month is too small: at the slowest pace the bucket costs $5.6182176: "+
		"a heartbeat every 3s makes 864000 requests in 30 days, $4.32; "+
		"a listing of the inbox every 10s makes 259200 requests in 30 days, $1.296; "+
		"a collection every 10h0m0s makes 576 requests in 30 days, $0.0022176. "+
		"Give a budget of at least $5.6182176, or a longer --broker-heartbeat or --inbox-idle-interval"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

var enough = regexp.MustCompile(`at least \$([0-9.]+)`)

// TestAdviceHelps gives the budget that a refusal asks for.
func TestAdviceHelps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budget := Money(rapid.Int64Range(1, int64(6*Dollar)).Draw(t, "budget"))
		heartbeat := time.Duration(rapid.IntRange(100, 30_000).Draw(t, "heartbeat")) * time.Millisecond
		inbox := time.Duration(rapid.IntRange(0, 60).Draw(t, "inbox")) * time.Second
		p := s3Plan(budget, heartbeat, inbox)
		err := p.Check()
		if (err != nil) != (p.Fixed() > p.Budget) {
			t.Fatalf("%s of %s: %v", p.Fixed(), p.Budget, err)
		}
		if err == nil {
			return
		}
		wanted, bad := ParseMoney(enough.FindStringSubmatch(err.Error())[1])
		if p.Budget = wanted; bad != nil || p.Check() != nil {
			t.Fatalf("%v does not help: %v, %v", err, bad, p.Check())
		}
	})
}
