// Package s3 keeps a bucket on Amazon S3, or on a store that has the same API and
// supports If-None-Match and If-Match, which package probe checks.
//
// # URL
//
//	s3://BUCKET/PREFIX?endpoint=URL&region=NAME&sse=kms&sse-key=KEY
//
// The prefix is optional. The region comes from the URL or the SDK's usual
// sources, and with an endpoint defaults to us-east-1. An endpoint names another
// store than Amazon's; it is addressed as ENDPOINT/BUCKET/KEY. Credentials
// come from the SDK's default chain: environment, shared files, web identity,
// instance role; never from the URL. When the store refuses them (401, 403, an expired
// token), the next request reads that chain again, so a key or token that was replaced in
// a file is used without a restart.
//
// # Versions
//
// A version is the ETag as the store spells it. It is a hash of the bytes, so
// the same bytes bring the same version back: writers put a nonce into each
// document.
//
// # Outcomes of a conditional write
//
//	200 with an ETag                        Committed
//	412                                     Conflict
//	409                                     Conflict: another write was under way;
//	                                        nothing was written; read and repeat
//	404 NoSuchKey                           Conflict: If-Match, and no such object
//	429, 503 SlowDown and its like          Unknown with ErrThrottled, not applied
//	anything else, no answer, no ETag       Unknown
//
// The SDK repeats requests after a 5xx or a lost connection, and would report
// the 412 that its own first, successful attempt has caused. Conditional writes
// are therefore sent once, without redirects, and bounded by a deadline. Reads,
// listings and deletes keep the SDK's retries.
package s3
