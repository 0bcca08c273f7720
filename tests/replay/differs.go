package main

// The recorded system answers a write when its one document is stored, also one that
// changes nothing. This one answers when a majority of the nodes has the write on
// disk, and tells in /status how far the bucket is behind; only past --max-flush-lag
// it refuses writes. Asked for ack=object it waits for the bucket, and after that time
// says that it has not come so far: the write is done all the same and cannot fail.
const (
	quorumIsEnough = "a majority has the write on disk: a bucket that refuses to store does not fail it"
	stillThere     = "the job of the case before is there: " + quorumIsEnough
	nothingToStore = "it changes nothing: there is nothing for the bucket to refuse"
)

// differs are the cases in which this system answers otherwise by design, and why.
// They are played, and must differ: one that does not any more is to be taken out.
var differs = map[string]string{
	"osqueue/storage_errors.json fail-submit/01 submit":                              quorumIsEnough,
	"osqueue/storage_errors.json fail-heartbeat/01 heartbeat":                        nothingToStore,
	"osqueue/storage_errors.json fail-heartbeat/02 complete":                         nothingToStore,
	"osqueue/storage_errors.json fail-ws/01 submitJob over websocket":                quorumIsEnough,
	"osqueue/storage_errors.json fail-ws/02 getStats":                                stillThere,
	"osqueue/storage_errors.json fail-connect-proto/01 ClaimJob over Connect, proto": nothingToStore,
}
