"""Tasks for a worker: python3 osqueue.py worker primes=tasks:primes

The payload is {"below": N}, the result {"count": how many primes there are, "largest": the largest of them}.
"""
from osqueue import Failure


def primes(job):
    below = job.payload.get("below") if isinstance(job.payload, dict) else None
    if not isinstance(below, int) or below > 10_000_000:
        raise Failure("the payload needs a number of at most 10000000 as below", retryable=False)
    sieve, found, largest = bytearray([1]) * max(below, 2), 0, None
    for n in range(2, below):
        if n % 10_000 == 0:
            job.progress(100 * n // below, "at %d" % n)
            if job.stop.is_set():  # cancelled, taken back, or the worker stops
                raise Failure("ended: " + job.why)
        if sieve[n]:
            found, largest = found + 1, n
            sieve[n * n::n] = bytes(len(range(n * n, below, n)))
    return {"count": found, "largest": largest}
