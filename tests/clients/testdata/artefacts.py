"""Uploads artefacts, runs a worker that reads and makes some, and prints what came of it as one JSON object. OWN is the end
of the names that belong to the test; the jobs sealed and damaged are there before.
"""
import json, os, tempfile, threading

from osqueue import Client, Error, Job, Worker

q, own, seen = Client(), os.environ["OWN"], {}
data = bytes(i * 7 % 251 for i in range(300000))
w = Worker(q, 2, "artefacts" + own)


def scan(job):
    with job.open("scan.tiff") as file: got = file.read()
    job.put("text.pdf", b"of an earlier attempt")
    job.put("text.pdf", got[::-1])
    return got == data


def failure(call):
    try: return [call(), ""]
    except (Error, TypeError, ValueError) as e: return [getattr(e, "tag", ""), str(e)]


w.handle("scan" + own, scan)
thread = threading.Thread(target=w.run)
thread.start()
try:
    with tempfile.TemporaryFile() as file:
        file.write(b"skip " + data)
        file.seek(5)
        files = [q.upload("scan.tiff", file), q.upload("empty", b"")]
        file.truncate((5 << 30) + 6)
        file.seek(5)
        seen["large"] = "at most 5 GiB" in failure(lambda: q.upload("large", file))[1]
    id = q.submit("scan" + own, id="scan" + own, artefacts=files)
    seen["result"] = q.wait(id, 60)["result"]
    seen["listed"] = [[a["name"], a["size"]] for a in q.artefacts(id)]
    with q.open_artefact(id, "text.pdf") as file:
        seen["parts"] = file.read(7) == data[:-8:-1] and b"".join(iter(lambda: file.read(999), b"")) == data[-8::-1]
    seen["empty"] = len(q.open_artefact(id, "empty").read())
finally:
    w.stop()
    thread.join()
seen["odd"] = "bytes" in failure(lambda: q.upload("odd", "text"))[1]
seen["none"] = failure(lambda: q.open_artefact(id, "none"))[0]
seen["lost"] = failure(lambda: Job("w", {"jobId": id, "token": 1, "attempts": 1, "leaseMs": 1}, q).put("late", b""))[0]
tag, text = failure(lambda: q.open_artefact("sealed" + own, "secret.txt"))
seen["sealed"] = [tag, "osqueue job get --keys" in text]
seen["damaged"] = failure(lambda: q.open_artefact("damaged" + own, "a").read())[0]
alone = Job("w", {"jobId": id, "token": 1, "attempts": 1, "leaseMs": 1})
seen["alone"] = [alone.put("a", b""), "without a cluster" in failure(lambda: alone.open("a"))[1]]
print(json.dumps(seen))
