// Package gcs keeps a bucket on Google Cloud Storage.
//
// # URL
//
//	gs://BUCKET/PREFIX?endpoint=URL&kms-key=KEY
//
// The prefix is optional. Credentials come from Google's default chain
// (GOOGLE_APPLICATION_CREDENTIALS, gcloud, the metadata server). When they are refused
// (401, 403, no access token), the next request finds them again, so a key that was
// replaced in its file is used without a restart. An endpoint
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
// # Requests
//
// The driver uses Google's client of Cloud Storage over the JSON API; the build tag
// disable_grpc_modules leaves gRPC out of the program. By default the client repeats a conditional
// write after a 5xx, and then meets its own first attempt as a 412. So a write is one
// request (ChunkSize 0, RetryNever), bounded by a deadline. It announces the CRC-32C
// of the whole object, so that a part of it cannot be taken for all. Reads, listings and
// deletes are tried up to readAttempts times; a body that breaks off or does not match its
// CRC-32C is read once more. Redirects are not followed: a conditional write must not be sent twice.
package gcs
