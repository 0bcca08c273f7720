"""Submits N jobs, one after the other, and prints their ids."""
import os

from osqueue import Client

q = Client()
for i in range(int(os.environ["N"])):
    print(q.submit("square", i), flush=True)
