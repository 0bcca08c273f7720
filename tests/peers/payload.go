package main

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// payloadBytes is the size of each payload: a JSON string.
const payloadBytes = 200

// stampDigits is the length of the time at the start of the string.
const stampDigits = 19

// padding is text that does not compress well. Each payload has a different part of it.
var padding = func() string {
	random := rand.NewChaCha8([32]byte{1})
	data := make([]byte, 12<<10)
	_, _ = random.Read(data) // never fails
	return base64.RawURLEncoding.EncodeToString(data)
}()

// newPayload returns a payload that contains a time.
func newPayload(at time.Time) []byte {
	const fill = payloadBytes - stampDigits - 2
	i := rand.IntN(len(padding) - fill)
	return fmt.Appendf(make([]byte, 0, payloadBytes), `"%0*d%s"`, stampDigits, at.UnixNano(), padding[i:i+fill])
}

// newPayloads returns n payloads.
func newPayloads(n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = newPayload(time.Now())
	}
	return all
}

// stampOf returns the time in a payload.
func stampOf(payload []byte) (time.Time, error) {
	if len(payload) != payloadBytes {
		return time.Time{}, fmt.Errorf("payload has %d bytes, want %d", len(payload), payloadBytes)
	}
	n, err := strconv.ParseInt(string(payload[1:1+stampDigits]), 10, 64)
	return time.Unix(0, n), err
}
