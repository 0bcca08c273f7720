"""Charges, packs and ships orders, after a human has approved them: see README.md."""
import os, sys, time

from osqueue import Client, Failure, Worker

PDF = ("%%PDF-1.4\n1 0 obj<</Pages 2 0 R>>endobj 2 0 obj<</Kids[3 0 R]/Count 1>>endobj 3 0 obj<</Parent 2 0 R/Type/Page"
       "/MediaBox[0 0 400 60]/Contents 4 0 R/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>"
       "endobj 4 0 obj<</Length %d>>stream\nBT/F 9 Tf 10 30 Td(%s)Tj ET\nendstream endobj trailer<</Root 1 0 R>>\n")


def submit(queue, id, customer):
    order = {"id": id, "customer": customer}
    flow = queue.flow({
        "charge": {"type": "charge", "payload": order, "limits": ["customer:" + customer]},
        "invoice": {"type": "invoice", "payload": order, "after": ["charge"]},
        "pack": {"type": "pack", "payload": order, "after": ["charge"]},
        "approve": {"type": "approve", "payload": order, "after": ["invoice", "pack"]},
        "ship": {"type": "ship", "payload": order, "after": ["invoice", "pack", "approve"], "after_failure": "cancel"},
    }, id)
    print(queue.make_link(flow + ".approve", "approved", 24 * 3600)["path"])


def charge(job):
    """Charges the card once, also if the attempt ends before the receipt is sent."""
    paid = job.step("charge", lambda: call("charge", job.payload))
    job.step("receipt", lambda: call("receipt", job.payload))
    return paid


def invoice(job):
    """Keeps the file as an artefact: osqueue job get ORDER.invoice invoice.pdf."""
    text = "invoice of %s, paid by %s" % (job.payload["id"], job.parents["charge"]["result"])
    job.put("invoice.pdf", (PDF % (25 + len(text), text)).encode())
    return text


def pack(job):
    return "parcel of " + job.payload["id"]


def approve(job):
    try:
        return job.wait_signal("approved", 24 * 3600)
    except TimeoutError as e:
        raise Failure(str(e), retryable=False)


def ship(job):
    sent, before = job.step("ship", lambda: call("ship", job.payload)), job.parents
    by = before["approve"].get("result") or ""  # a link sends no value
    return [sent, before["pack"]["result"], before["invoice"]["result"], "approved by " + by]


def call(what, order):
    """Stands for a call of another system, whose idempotency key would be the two. It notes its begin and end in a file."""
    def note(when):
        with open("orders.log", "a") as file:
            print(when, what, order["id"], order["customer"], os.getpid(), file=file)
    note("begin")
    time.sleep(0.2)
    note("end")
    return "%s of %s" % (what, order["id"])


if sys.argv[1] == "submit":
    submit(Client(), *sys.argv[2:])
else:
    worker = Worker(Client(), concurrency=4)
    for handler in charge, invoice, pack, approve, ship:
        worker.handle(handler.__name__, handler)
    worker.run()
