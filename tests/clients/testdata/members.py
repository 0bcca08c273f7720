"""Enqueues a job for each line of its input, with one client."""
import sys, osqueue

queue = osqueue.Client()
for line in sys.stdin:
    print(queue.submit(line.strip()), flush=True)
