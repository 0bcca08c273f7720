package cronid

import "testing"

func TestTime(t *testing.T) {
	for _, at := range []int64{0, 1, 1_795_271_090_000, 1<<48 - 1} {
		id, err := New(at)
		if err != nil {
			t.Fatal(err)
		}
		if other, _ := New(at); other == id {
			t.Errorf("%s twice", id)
		}
		if got, ok := Time(id); got != at || !ok {
			t.Errorf("the time of %s is %d, %v, want %d", id, got, ok, at)
		}
	}
	for _, id := range []string{"", "report-1", "01a1fe7e-df69-7e8f-8989-a164e3cc47c5", "01a1fe7e-df69-8e8f-0989-a164e3cc47c5"} {
		if at, ok := Time(id); ok {
			t.Errorf("%q has the time %d", id, at)
		}
	}
}
