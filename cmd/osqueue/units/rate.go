package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseRate parses a rate such as 10/s, 600/m or 5000/h, and returns it per second.
func ParseRate(text string) (float64, error) {
	number, factor := text, 1.0
	for unit, seconds := range map[string]float64{"/s": 1, "/m": 60, "/h": 3600} {
		if rest, ok := strings.CutSuffix(text, unit); ok {
			number, factor = rest, seconds
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	rate := n / factor
	if err != nil || math.IsNaN(rate) || rate < 0.001 || rate > 1e6 {
		return 0, fmt.Errorf("%q is not a rate: write it as in 10/s, 600/m or 5000/h, at least 0.001 and at most 1000000 a second", text)
	}
	return rate, nil
}

// RateText formats a rate in the notation of ParseRate. It returns "" for none.
func RateText(perSecond float64) string {
	if perSecond == 0 {
		return ""
	}
	return strconv.FormatFloat(perSecond, 'g', 6, 64) + "/s"
}
