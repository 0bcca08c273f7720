"""Runs idle workers until it is killed: idle.py NUMBER."""
import sys, threading

from osqueue import Client, Worker

for i in range(int(sys.argv[1])):
    worker = Worker(Client(), concurrency=8, name="python-%d" % i)
    worker.handle("nothing", lambda job: None)
    threading.Thread(target=worker.run, daemon=True).start()
threading.Event().wait()
