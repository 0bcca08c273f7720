// Package seal makes the Cipher of a client: it encrypts payloads, results, errors, logs
// and messages of progress before they leave a producer or a worker. Programs that do not
// import it do not contain its dependencies.
//
// # Problem
//
// The nodes, the bucket, its backups, and everybody who may read them see all payloads.
// With a Cipher they see sizes, types, tags, groups, ids and times only.
//
// # Envelope encryption
//
// Every text gets a data key of its own (AES-256-GCM), which a key-encryption key wraps;
// the wrapped key travels with the text. The key-encryption key is one of a Ring, which is
// a file, or one of a key management service (New). The format of a ciphertext is Tink's:
// the length of the wrapped key in four bytes, big-endian, the wrapped key, the text.
//
// The keys of a Ring are XAES-256-GCM, whose random nonces have 192 bits, so that one key
// may wrap any number of data keys.
//
// # Streams
//
// Data that is too large for one text is encrypted in chunks (NewWriter, NewReader), so that it is
// never whole in memory and a reader can begin anywhere. The format of the chunks is Tink's
// AES-GCM-HKDF streaming, with AES-256, SHA-256 and chunks of 64 KiB: the STREAM construction of
// Hoang, Reyhanitabar, Rogaway and Vizár ("Online Authenticated-Encryption and its Nonce-Reuse
// Misuse-Resistance", CRYPTO 2015). The nonce of a chunk has its number, and a mark in the last one,
// so that a chunk that is missing, moved or doubled, and a stream that is cut or continued, do not
// decrypt. Each stream has a key of its own, so that chunks of another one do not either:
//
//	length of the wrapped key (4 bytes, big-endian), the wrapped key
//	length of the rest of the header (1 byte, 40), salt (32), prefix of the nonces (7)
//	chunks of 64 KiB with their tags; the first one is shorter by the header, the last as it comes
//
// The wrapped key is a text of the Cipher, bound to the kind "blob" and to what the caller says.
// So streams need no keys, no rotation and no scope of their own.
//
// # Scope
//
// The text is bound to a scope, in addition to the job (see package client). A client does
// not know the id of its cluster before it connects, and the id changes when a cluster is
// restored from its bucket. So the scope is a name that the key ring has: random, or given
// to Create. Programs that share a ring share the scope, and need no setting.
//
// # Rotation
//
//	osqueue key create        one key, the primary
//	        key rotate --stage  a second key, which only decrypts: distribute the file
//	        key use ID        the second key becomes the primary: distribute the file
//	        key rm ID         the first key goes, when no text of it is left
//
// A Ring looks at its file at most every 10 s, and at once (at most every second) when it
// meets an unknown key, so that programs need no restart.
//
// # Failure stance
//
// A ring that cannot be read is an error at the start. Later the Ring continues with the keys
// that it has, and names the error if a key is missing. A wrong ciphertext is ErrTampered,
// a missing key ErrNoKey; neither yields plaintext. Writers of a ring exclude each other,
// and replace the file as a whole.
package seal
