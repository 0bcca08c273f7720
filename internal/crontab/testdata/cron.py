#!/usr/bin/env python3
"""Simulates cron minute by minute and prints the table of TestCronTable.

    python3 cron.py > cron.txt

The rules are those that cron(5) and cron(8) describe for Vixie cron: a clock that moves
forward by less than three hours runs the fixed times that it skipped at once, one that
moves back by up to three hours does not run them again, and jobs with a "*" in minute or
hour follow the clock as it is. Each line of the table is a zone, a spec, the first minute
and the number of minutes that were simulated, and the runs: minutes after the first one,
"3x2" for two runs in minute 3, "a-b/s" for one run every s minutes.
"""

import functools
import random
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
DAYS = "sun mon tue wed thu fri sat".split()


def number(text, names, first):
    text = text.lower()
    return names.index(text) + first if text in names else int(text)


def field(text, low, high, names=(), first=0):
    """The values of a field, and whether it begins with a star."""
    values = set()
    for part in text.split(","):
        part, _, step = part.partition("/")
        if part == "*":
            a, b = low, high
        elif "-" in part:
            a, b = (number(x, names, first) for x in part.split("-"))
        else:
            a = b = number(part, names, first)
        assert low <= a <= b <= high, text
        values.update(range(a, b + 1, int(step or 1)))
    return values, text.startswith("*")


class Job:
    def __init__(self, spec):
        m, h, dom, mon, dow = spec.split()
        self.minute, minute_star = field(m, 0, 59)
        self.hour, hour_star = field(h, 0, 23)
        self.dom, dom_star = field(dom, 1, 31)
        self.month, _ = field(mon, 1, 12, MONTHS, 1)
        self.dow, dow_star = field(dow, 0, 7, DAYS)
        if 7 in self.dow:
            self.dow.add(0)
        self.wild = minute_star or hour_star
        self.both = dom_star or dow_star

    def matches(self, wall):
        t = datetime(1970, 1, 1) + timedelta(minutes=wall)
        if t.minute not in self.minute or t.hour not in self.hour or t.month not in self.month:
            return False
        dom, dow = t.day in self.dom, t.isoweekday() % 7 in self.dow
        return dom and dow if self.both else dom or dow


@functools.cache
def wall_clock(minute, zone):
    """What the clocks of the zone show, in minutes since 1970, at a minute of UTC."""
    t = datetime.fromtimestamp(minute * 60, timezone.utc).astimezone(zone)
    return (t.replace(tzinfo=None) - datetime(1970, 1, 1)) // timedelta(minutes=1)


def simulate(job, zone, first, minutes):
    """Yields (minute, runs)."""
    virtual = wall_clock(first - 1, zone)
    for minute in range(first, first + minutes):
        wall, runs = wall_clock(minute, zone), 0
        ahead = wall - virtual
        if ahead == 1 or ahead > 180 or ahead < -180:  # as ever, or a clock that was set
            runs = job.matches(wall)
            virtual = wall
        elif ahead > 1:  # summer begins
            if job.wild:
                runs = job.matches(wall)
            else:
                runs = sum(job.matches(v) for v in range(virtual + 1, wall + 1))
            virtual = wall
        elif job.wild:  # it ends: virtual waits for the clock
            runs = job.matches(wall)
        if runs:
            yield minute - first, int(runs)


def text(runs):
    out, i = [], 0
    while i < len(runs):
        at, n = runs[i]
        j = i + 1
        if n == 1 and j < len(runs):
            step = runs[j][0] - at
            while j < len(runs) and runs[j] == (runs[j - 1][0] + step, 1):
                j += 1
        if j - i > 2:
            out.append(f"{at}-{runs[j - 1][0]}/{step}")
            i = j
        else:
            out.append(f"{at}x{n}" if n > 1 else str(at))
            i += 1
    return " ".join(out)


CHANGES = [  # some days around changes of the clocks
    ("Europe/Berlin", "2025-03-29", 3),
    ("Europe/Berlin", "2025-10-25", 3),
    ("Europe/Dublin", "2026-03-28", 3),
    ("America/New_York", "2025-03-08", 3),
    ("America/New_York", "2025-11-01", 3),
    ("America/Havana", "2024-03-09", 3),
    ("America/Havana", "2024-11-02", 3),
    ("America/Sao_Paulo", "2018-11-03", 3),
    ("America/Sao_Paulo", "2018-02-17", 3),
    ("Asia/Beirut", "2021-03-27", 3),
    ("Asia/Beirut", "2021-10-30", 3),
    ("Australia/Lord_Howe", "2024-10-05", 3),
    ("Australia/Lord_Howe", "2024-04-06", 3),
    ("Antarctica/Troll", "2024-03-30", 3),
    ("Antarctica/Troll", "2024-10-26", 3),
    ("Antarctica/Casey", "2018-03-10", 3),  # three hours back
    ("Pacific/Apia", "2011-12-29", 4),  # a day is left out
    ("Asia/Kolkata", "2025-01-30", 3),
]
FIXED = [
    "30 2 * * *", "0 2 * * *", "0 0 * * *", "15,30 2 * * *", "0 2,3 * * *", "0,30 0-3 * * *", "59 1 * * *", "0 3 * * *",
    "30 1 * * *", "45 0 * * sun", "15 2 30 3 *", "0 1-2 * mar,oct *", "5 12 * * *", "20 23 * * 6",
]
WILD = ["*/20 * * * *", "*/20 2 * * *", "30 * * * *", "0 */2 * * *", "*/30 0-2 * * *", "* 2 * * *", "7 */3 * * 7", "*/45 1 * * *"]
DAYRULES = [
    "0 0 */2 * 1", "0 0 1,15 * 1", "0 0 * * 7", "0 0 1-7 * sun", "0 0 13 * fri", "0 12 */10 * */2", "0 0 1-31/2 * 1",
    "0 6 * */2 1-5", "0 6 31 * *", "0 6 29 2 *", "0 0 * * 5-7", "0 0 * * 0-7", "0 0 1 * */3", "0 0 *,5 * 3", "0 0 5,* * 3",
    "30 4 1,15 * 5", "0 22 * * 1-5", "0 0,12 1 */2 *", "0 4 8-14 * *", "0 0 1 1 *", "0 0 * * 1,3,7",
]


def random_spec(rng):
    def one(low, high):
        a = rng.randint(low, high)
        b = rng.randint(a, high)
        return rng.choice([str(a), str(a), f"{a}-{b}", f"{a}-{b}/{rng.randint(1, 5)}", f"{a},{b}"])

    star = lambda low, high, n: rng.choice(["*"] * n + [f"*/{rng.randint(2, 9)}", one(low, high)])
    minute = rng.choice([str(rng.randint(0, 59)), f"*/{rng.choice([15, 17, 20, 30])}", one(0, 59)])
    return " ".join([minute, star(0, 5, 1), star(1, 31, 2), star(1, 12, 6), star(0, 7, 2)])


def main():
    rng = random.Random(30)
    cases = [(z, d, n, s) for z, d, n in CHANGES for s in FIXED + WILD + [random_spec(rng) for _ in range(8)]]
    cases += [("UTC", "2023-12-25", 450, s) for s in DAYRULES]
    print("# Made by cron.py.")
    for zone, day, days, spec in cases:
        first = int(datetime.fromisoformat(day + "T00:00:00+00:00").timestamp()) // 60
        runs = list(simulate(Job(spec), ZoneInfo(zone), first, days * 1440))
        print("|".join([zone, spec, str(first), str(days * 1440), text(runs)]))


main()
