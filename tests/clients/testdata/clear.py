"""Prints for each server of the arguments whether the client sends a token there."""
import sys, osqueue

for server in sys.argv[1:]:
    try:
        osqueue.Client([server], token="osq_x")
        print("yes")
    except ValueError as e:
        print("no" if "without TLS" in str(e) else e)
