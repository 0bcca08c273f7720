"""The orders with Celery and Redis: signals, files and results of steps are in a hash of each order."""
import os, sys, time

from celery import Celery, group

REDIS = os.environ.get("REDIS", "redis://127.0.0.1:6379/0")
DAY = 24 * 3600
PDF = ("%%PDF-1.4\n1 0 obj<</Pages 2 0 R>>endobj 2 0 obj<</Kids[3 0 R]/Count 1>>endobj 3 0 obj<</Parent 2 0 R/Type/Page"
       "/MediaBox[0 0 400 60]/Contents 4 0 R/Resources<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>>>"
       "endobj 4 0 obj<</Length %d>>stream\nBT/F 9 Tf 10 30 Td(%s)Tj ET\nendstream endobj trailer<</Root 1 0 R>>\n")
app = Celery("orders", broker=REDIS, backend=REDIS)
app.conf.update(task_acks_late=True, task_reject_on_worker_lost=True, worker_concurrency=4, worker_prefetch_multiplier=1)
app.conf.broker_transport_options = {"visibility_timeout": 2 * DAY}  # longer than the wait; a killed worker's tasks wait so long
db = app.backend.client


def submit(id, customer):
    order = {"id": id, "customer": customer}
    (charge.s(order) | group(invoice.s(order), pack.s(order)) | ready.s(order)).apply_async()


def key(order):
    return "order:" + order["id"]


def step(order, name):
    """Makes the call unless its result is stored."""
    kept = db.hget(key(order), name)
    if kept is None:
        kept = call(name, order).encode()
        db.hset(key(order), name, kept)
    return kept.decode()


@app.task(bind=True, max_retries=None)
def charge(self, order):
    locks = [db.lock("customer:%s:%d" % (order["customer"], slot), timeout=60) for slot in (1, 2)]
    lock = next((lock for lock in locks if lock.acquire(blocking=False)), None)
    if not lock:
        raise self.retry(countdown=1)
    try:
        paid = step(order, "charge")
        step(order, "receipt")
        return paid
    finally:
        lock.release()


@app.task
def invoice(paid, order):
    text = "invoice of %s, paid by %s" % (order["id"], paid)
    db.hset(key(order), "invoice.pdf", PDF % (25 + len(text), text))
    return text


@app.task
def pack(paid, order):
    return "parcel of " + order["id"]


@app.task
def ready(results, order):
    db.hset(key(order), mapping={"customer": order["customer"], "invoice": results[0], "pack": results[1]})
    expire.apply_async((order,), countdown=DAY)
    proceed(order["id"])


@app.task
def expire(order):
    if db.hsetnx(key(order), "approve", ""):
        raise TimeoutError("%s was not approved in time" % order["id"])


def approve(id, by):
    db.hsetnx("order:" + id, "approve", by)
    proceed(id)


def proceed(id):
    """Is called after each change: the last one finds all that the next task needs."""
    customer, invoice, pack, by = [v and v.decode() for v in db.hmget("order:" + id, "customer", "invoice", "pack", "approve")]
    if customer and by:
        ship.apply_async(({"id": id, "customer": customer}, invoice, pack, by), task_id=id + ".ship")


@app.task
def ship(order, invoice, pack, by):
    return [step(order, "ship"), pack, invoice, "approved by " + by]


def call(what, order):
    """Stands for a call of another system. It notes its begin and end in a file."""
    def note(when):
        with open("orders.log", "a") as file:
            print(when, what, order["id"], order["customer"], os.getpid(), file=file)
    note("begin")
    time.sleep(0.2)
    note("end")
    return "%s of %s" % (what, order["id"])


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        app.worker_main(["worker"])
    else:
        {"submit": submit, "approve": approve}[sys.argv[1]](*sys.argv[2:])
