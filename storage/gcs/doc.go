// Package gcs keeps a bucket on Google Cloud Storage.
//
// # URL
//
//	gs://BUCKET/PREFIX?endpoint=URL
//
// The prefix is optional. Credentials come from Google's default chain
// (GOOGLE_APPLICATION_CREDENTIALS, gcloud, the metadata server). An endpoint
// names an emulator, which is spoken to without credentials.
//
// # Versions
//
// A version is the object's generation, which never comes back. Generation 0
// means "no object" to GCS, so it is not a version here.
//
// # Outcomes of a conditional write
//
//	200 with a generation          Committed
//	412, 409                       Conflict
//	429                            Unknown with ErrThrottled, not applied
//	anything else, or no answer    Unknown
//
// GCS takes about one write a second of the same object and then answers 429.
//
// The client repeats conditional writes after a 5xx for as long as their
// context lives, and would then meet its own first attempt as a 412. They are
// therefore sent as one request (ChunkSize 0), with the retry policy "never",
// and bounded by a deadline. The request announces the CRC-32C of the whole
// object, so that a part of it cannot be taken for all. Reads, listings and
// deletes keep the client's retries.
package gcs
