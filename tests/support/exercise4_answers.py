"""Answers to exercise 4: designs that differ and are right, and one for each known mistake.

The wrong ones are a right one with one thing changed, so a mistake is what is named and nothing else.
"""

# ruff: noqa: E501
from support.solutions import changed, solved

SOLVED = solved(4)
SETUP = SOLVED["ex4-setup"]


def but(id, *changes):
    """Return an answer, that of the solution if an id is given, with some text replaced; it must be there."""
    return changed(SOLVED.get(id, id), *changes)


def only(id, *names):
    """Return some functions of the solution, with the helpers that stand behind them."""
    parts = [f"def {part}" for part in f"\n{SOLVED[id]}".split("\ndef ")[1:]]
    return "\n".join(part for part in parts if part.split("(")[0].removeprefix("def ") in names)


# Whole designs of (c), which are right for (b), too --------------------------------------------------------------------

# The slot keeps the number of its chunk; an older packet is told from a newer one by that, and workers by a bitmap.
SEQUENCE = """
class MySwitch(Program):
    def __init__(self, job):
        self.lanes, self.all = 32, (1 << job.workers) - 1
        self.slots, self.bits = job.slots, job.slots.bit_length() - 1
        self.fields = {"job": 2, "slot": 3, "who": 4, "turn": 16}
        pool = job.jobs * job.slots
        self.turn = self.register("turn", pool)
        self.seen = self.register("seen", 2 * pool)
        self.sums = self.register("sums", 2 * pool, lanes=32)

    def apply(self, packet):
        slot = (packet.job << self.bits) + (packet.slot & (self.slots - 1))
        turn = packet.turn
        latest = self.turn.access(slot, lambda t: (where(t < turn, turn, t), t))
        # the one before the latest may still be asked for
        ahead, stale = latest < turn, latest > turn + 1
        cell, who = (slot << 1) + (turn & 1), packet.who
        before = self.seen.access(cell, lambda seen: (where(stale, seen, where(ahead, who, seen | who)), seen))
        first = ahead | (before == 0)
        bits, had = before | who, before & who
        again = ~ahead & ~stale & (had != 0)
        full = where(ahead, who, bits) == self.all

        def add(total):
            new = where(first, packet.payload, total + packet.payload)
            kept = where(again | stale, total, new)
            return kept, kept

        packet.payload = self.sums.access(cell, add)
        packet.multicast(full & ~again & ~stale)
        packet.reply(again & (before == self.all))


class MyWorker:
    timer, total = 60e-6, None

    def __init__(self, me):
        self.me, self.rows = me, me.values.reshape(-1, 32)
        self.sums = {}

    def packet(self, chunk):
        turn, slot = divmod(chunk, self.me.slots)
        return {"slot": slot, "who": 1 << self.me.rank, "turn": turn + 1}, self.rows[chunk].tolist()

    def start(self):
        yield from (self.packet(chunk) for chunk in range(min(len(self.rows), self.me.slots)))

    def take(self, header, values):
        chunk = (header["turn"] - 1) * self.me.slots + header["slot"]
        if chunk in self.sums:
            return None
        self.sums[chunk] = values
        if len(self.sums) == len(self.rows):
            self.total = np.concatenate([self.sums[c] for c in sorted(self.sums)])
        if chunk + self.me.slots < len(self.rows):
            return [self.packet(chunk + self.me.slots)]

    def timeout(self, header):
        chunk = (header["turn"] - 1) * self.me.slots + header["slot"]
        if chunk not in self.sums:
            return [self.packet(chunk)]
"""

# Sums in the making and results that are told again stand in different registers.
CACHE = but(
    "ex4-c",
    ("self.lanes, self.last = 32,", "self.lanes, self.last = 16,"),
    ("reshape(-1, 32)", "reshape(-1, 16)"),
    (
        '        self.left = self.register("left", 2 * pool)\n        self.sums = self.register("sums", 2 * pool, lanes=self.lanes)\n',
        '        self.left = self.register("left", pool)\n        self.held = self.register("held", pool)\n'
        '        self.sums = self.register("sums", pool, lanes=self.lanes)\n'
        '        self.results = self.register("results", pool, lanes=self.lanes)\n',
    ),
    ("        cell = (slot << 1) + ((packet.chunk >> self.bits) & 1)\n", "        cell = slot\n"),
    (
        """        packet.payload = self.sums.access(cell, add)
        packet.multicast((left == 1) & ~passed)
        packet.reply((left == 0) & again)     # it asks for a sum again
""",
        """        total = self.sums.access(cell, add)
        done = (left == 1) & ~passed
        held = self.held.access(cell, lambda old: (where(done, new, old), old))
        result = self.results.access(cell, lambda old: (where(done, total, old), where(done, total, old)))
        packet.payload = result
        packet.multicast(done)
        packet.reply(again & (held == new))
""",
    ),
)

# Three places take turns; the worker says which.
THREE = but(
    "ex4-c",
    ('"worker": 2, "chunk": 24}', '"worker": 2, "place": 2, "chunk": 24}'),
    ("2 * pool, lanes", "4 * pool, lanes"),
    ('"left", 2 * pool', '"left", 4 * pool'),
    ("cell = (slot << 1) + ((packet.chunk >> self.bits) & 1)", "cell = (slot << 2) + packet.place"),
    ('"worker": self.me.rank,\n', '"worker": self.me.rank, "place": chunk // self.me.slots % 3,\n'),
)

# Wide packets leave few stages, so that the worker computes what it can.
WIDE = but(
    "ex4-c",
    ("self.lanes, self.last = 32,", "self.lanes, self.last = 64,"),
    ("reshape(-1, 32)", "reshape(-1, 64)"),
    (
        '{"job": 2, "slot": 2, "worker": 2, "chunk": 24}',
        '{"job": 2, "who": 4, "cell": 3, "chunk": 24}',
    ),
    (
        """        slot = ((packet.job << self.bits)
                + (packet.slot & (self.slots - 1)))
""",
        """        who = look_up(packet.job, [4 * self.slots * job for job in range(4)]) + (packet.who & (4 * self.slots - 1))
        cell = look_up(packet.job, [2 * self.slots * job for job in range(4)]) + (packet.cell & (2 * self.slots - 1))
""",
    ),
    ("(slot << 2) + packet.worker", "who"),
    ("        cell = (slot << 1) + ((packet.chunk >> self.bits) & 1)\n", ""),
    (
        """        header = {"slot": chunk % self.me.slots, "worker": self.me.rank,
                  "chunk": chunk}
""",
        """        slots = self.me.slots
        header = {"who": 4 * (chunk % slots) + self.me.rank,
                  "cell": 2 * (chunk % slots) + chunk // slots % 2, "chunk": chunk}
""",
    ),
)

# One packet on its way, and a timer that doubles.
PATIENT = but(
    "ex4-c",
    ('    timer, total = "50 us", None\n', "    total = None\n"),
    (
        "        self.me, self.chunks = me,",
        "        self.timer = 30e-6\n        self.me, self.chunks = me,",
    ),
    ("for chunk in range(self.me.slots)]", "for chunk in (0,)]"),
    ('{"slot": chunk % self.me.slots,', '{"slot": 0,'),
    ("        chunk += self.me.slots\n", "        chunk += 1\n        self.timer = 30e-6\n"),
    ("((packet.chunk >> self.bits) & 1)", "(packet.chunk & 1)"),
    (
        "        return [] if self.done[chunk] else [self.packet(chunk)]\n",
        "        if self.done[chunk]:\n            return []\n        self.timer = min(2 * self.timer, 1e-3)\n        return [self.packet(chunk)]\n",
    ),
)

RIGHT_C = {
    "newest chunk of each worker": SOLVED["ex4-c"],
    "sequence numbers and a bitmap": SEQUENCE,
    "result cache": CACHE,
    "a third place": THREE,
    "64 values": WIDE,
    "one at a time, backing off": PATIENT,
    "told to all again": but(
        "ex4-c", ("packet.reply((left == 0) & again)", "packet.multicast((left == 0) & again)")
    ),
    "saturating": but("ex4-c", ("total + packet.payload", "saturating_add(total, packet.payload)")),
    "a long timer": but("ex4-c", ('"50 us"', "1e-3")),
    "48 values": but(
        "ex4-c",
        ("self.lanes, self.last = 32,", "self.lanes, self.last = 48,"),
        ("reshape(-1, 32)", "reshape(-1, 48)"),
    ),
}


def first(code):
    """Return a design of (c) as an answer to (b)."""
    return code.replace("MySwitch", "FirstSwitch").replace("MyWorker", "FirstWorker")


RIGHT_B = {
    "a counter": SOLVED["ex4-b"],
    **{
        name: first(RIGHT_C[name])
        for name in (
            "sequence numbers and a bitmap",
            "result cache",
            "64 values",
            "one at a time, backing off",
        )
    },
    "one window after the other": but(
        "ex4-b",
        (
            "        return self.packet(slot)\n",
            "        if len(set(c // self.slots for c in self.next)) > 1:\n            return []\n        return self.start()\n",
        ),
    ),
    "counted down": but(
        "ex4-b",
        ("where(n == last, 0, n + 1)", "where(n == 0, last, n - 1)"),
        ("multicast(count == last)", "multicast(count == (1 if last else 0))"),
    ),
}
RIGHT_A = {
    "closed forms": SOLVED["ex4-a"],
    "numpy": but(
        "ex4-a",
        ("    return [ring, size", "    return np.array([ring, size"),
        ("(4 * lanes))]", "(4 * lanes))])"),
    ),
    "packets": but(
        "ex4-a", ("size * (1 + header / (4 * lanes))", "size / (4 * lanes) * (4 * lanes + header)")
    ),
    "fractions": but(
        "ex4-a",
        (
            "    ring = 2 * (n - 1) / n     ",
            "    from fractions import Fraction\n    ring = 2 * Fraction(n - 1, n)     ",
        ),
        ("ring / ((n + 1) / n)", "ring / Fraction(n + 1, n)"),
    ),
    "with a unit": but(
        "ex4-a",
        (
            "[ring, size * (1 + header / (4 * lanes))]",
            '(f"{ring} B", f"{size * (1 + header / (4 * lanes))} B")',
        ),
    ),
    "by blocks": but(
        "ex4-a", ("2 * (n - 1) / n * size\n", "sum(size / n for _ in range(2 * (n - 1)))\n")
    ),
    "step by step, by recursion": """
def wire(n, size, lanes, header):
    def blocks(steps):
        return 0 if steps == 0 else 1 + blocks(steps - 1)
    packets = size / 4 / lanes
    return blocks(2 * (n - 1)) * size / n, size + packets * header

def gain(n):
    through_a_port = {"ring": 2 * n - 2, "tree": n, "nvls": n + 1}     # blocks
    return [through_a_port["ring"] / through_a_port[other] for other in ("tree", "nvls")]
""",
    "a class that counts": """
class Port:
    def __init__(self, n):
        self.n, self.sent = n, 0

    def send(self, blocks):
        self.sent += blocks / self.n
        return self

def wire(n, size, lanes, header):
    ring = Port(n)
    for half in range(2):
        for step in range(n - 1):
            ring.send(1)
    return ring.sent * size, (4 * lanes + header) * size / (4 * lanes)

def gain(n):
    ring = Port(n).send(n - 1).send(n - 1)
    return ring.sent / Port(n).send(n).sent, ring.sent / Port(n).send(n).send(1).sent
""",
}

KNOWN = """
def tell(x, block):
    return 0

def quantise(x, block):
    return (x.astype(float) * scale(block)).round()

def scale(block):
    return (2**31 - 2**6) / block.n / block.limit

def dequantise(total, block):
    return total / scale(block)

def bound(block):
    return block.n / 2 / scale(block)
"""
# At first as if values cancelled; when a sum has met the limit all start again with eight times less.
REPEATED = """
def tell(x, block):
    return 0

def scale(block):
    return 2**30 / block.limit / 8**block.turn

def quantise(x, block):
    return [round(float(v) * scale(block)) for v in x]

def dequantise(total, block):
    return None if block.hit else [t / scale(block) for t in total.tolist()]

def bound(block):
    return 0.5 * block.n / scale(block)
"""
# A power of two of headroom for the workers, one of room for the block's largest value.
BITS = """
def tell(x, block):
    top = float(np.abs(x).max())
    return int(np.ceil(np.log2(top))) if top else -100

def step(block):
    headroom = int(block.n - 1).bit_length()
    return 2.0 ** (block.top + headroom - 30)

def quantise(x, block):
    return np.floor(x.astype(float) / step(block)).astype(np.int32)

def dequantise(total, block):
    return (total + block.n / 2) * step(block)

def bound(block):
    return block.n / 2 * step(block)
"""
RIGHT_D = {
    "exponent of the block": SOLVED["ex4-d"],
    "known bound": KNOWN,
    "repeated": REPEATED,
    "headroom bits, rounded down": BITS,
    "the widest bound that is allowed": but(
        "ex4-d",
        ("return 0.5 * block.n / scale(block) ", "return 1e-6 * block.n * block.limit "),
    ),
    "float32": but(
        "ex4-d",
        ("return total / scale(block)", "return (total / scale(block)).astype(np.float32)"),
        (
            "return 0.5 * block.n / scale(block) ",
            "return 0.5 * block.n / scale(block) + block.n * block.limit * 2**-23 ",
        ),
    ),
}
# A usual approximation: the link is full, or all windows take a round trip.
ROUNDED_UP = """    return [ring, max((packets - 1) * wire / rate + trip, windows * trip)]"""
# Each packet leaves when the link is free and the answer of its slot is back.
FOLLOWED = """    send, back = wire / rate, []
    free = 0.0
    for packet in range(int(packets)):
        leaves = free
        if packet >= d["slots"]:
            leaves = max(free, back[packet - d["slots"]])
        free = leaves + send
        back.append(leaves + trip)
    return [ring, back[-1]]"""
RIGHT_E = {
    "64 slots of 32": SOLVED["ex4-e"],
    "few slots": but("ex4-e", ('"slots": 64', '"slots": 4')),
    "16 lanes": but("ex4-e", ('"lanes": 32, "header": 46', '"lanes": 16, "header": 8')),
    "64 lanes, many slots": but(
        "ex4-e",
        ('"lanes": 32, "header": 46, "slots": 64', '"lanes": 64, "header": 60, "slots": 4096'),
    ),
    "strings": but(
        "ex4-e", ("    return [ring, switch]", '    return [f"{ring} s", f"{switch} s"]')
    ),
    "last window rounded up": but("ex4-e", ("    return [ring, switch]", ROUNDED_UP)),
    "few slots, rounded up": but(
        "ex4-e", ('"slots": 64', '"slots": 256'), ("    return [ring, switch]", ROUNDED_UP)
    ),
    "every packet followed": but("ex4-e", ("    return [ring, switch]", FOLLOWED)),
    "few slots, every packet followed": but(
        "ex4-e", ('"slots": 64', '"slots": 5'), ("    return [ring, switch]", FOLLOWED)
    ),
    "16 lanes in 256 slots, every packet followed": but(
        "ex4-e",
        ('"lanes": 32, "header": 46, "slots": 64', '"lanes": 16, "header": 46, "slots": 256'),
        ("    return [ring, switch]", FOLLOWED),
    ),
}
RIGHT_F = {
    "closed forms": SOLVED["ex4-f"],
    "floor": but(
        "ex4-f",
        (
            "memory // (4 * lanes * places * need)",
            "int(np.floor(memory / 4 / lanes / places / need))",
        ),
    ),
    "shares": but(
        "ex4-f",
        (
            "(up * gain + (repair - detect) * 1) / (up + repair)",
            "np.average([gain, 1, 0], weights=[up, repair - detect, detect])",
        ),
    ),
    "per port": but(
        "ex4-f",
        ("(price - plain + energy) / ports", "price / ports - plain / ports + energy / ports"),
    ),
    "joules": but(
        "ex4-f",
        (
            "(watts - plain_watts) / 1000 * 8760 * years * tariff",
            "(watts - plain_watts) * 8760 * 3600 * years / 3.6e6 * tariff",
        ),
    ),
    "counted up": """
def tenants(memory, lanes, places, need):
    jobs = 0
    while (jobs + 1) * need * places * lanes * 4 <= memory:
        jobs += 1
    return jobs

def speed(up, repair, detect, gain):
    phases = [(up, gain), (detect, 0), (repair - detect, 1)]
    return sum(time * rate for time, rate in phases) / sum(time for time, _ in phases)

def extra(price, plain, watts, plain_watts, ports, years, tariff):
    def owned(price, watts):
        return price + sum(8.76 * watts * tariff for _ in range(years))
    return owned(price, watts) / ports - owned(plain, plain_watts) / ports
""",
    "a class, and a generator of years": """
class Owned:
    def __init__(self, price, watts, tariff):
        self.price, self.kilowatts, self.tariff = price, watts / 1e3, tariff

    def bills(self, years):
        yield self.price
        for year in range(years):
            yield self.kilowatts * 24 * 365 * self.tariff

def tenants(memory, lanes, places, need):
    words = memory // 4
    return words // lanes // places // need

def speed(up, repair, detect, gain):
    cycle = up + repair
    return 1 + up / cycle * (gain - 1) - detect / cycle

def extra(price, plain, watts, plain_watts, ports, years, tariff):
    both = [sum(Owned(*one, tariff).bills(years)) for one in ((price, watts), (plain, plain_watts))]
    return (both[0] - both[1]) / ports
""",
    "fractions of an hour": """
from fractions import Fraction

def tenants(memory, lanes, places, need):
    return int(Fraction(memory, 4 * lanes * places * need))

def speed(up, repair, detect, gain):
    up, repair, detect, gain = map(Fraction, (up, repair, detect, gain))
    return (up * gain + repair - detect) / (up + repair)

def extra(price, plain, watts, plain_watts, ports, years, tariff):
    kilowatt_hours = Fraction(watts - plain_watts) * 8760 * years / 1000
    return float((Fraction(price) - Fraction(plain) + kilowatt_hours * Fraction(tariff)) / ports)
""",
}
RIGHT = {
    "ex4-a": RIGHT_A,
    "ex4-b": RIGHT_B,
    "ex4-c": RIGHT_C,
    "ex4-d": RIGHT_D,
    "ex4-e": RIGHT_E,
    "ex4-f": RIGHT_F,
}

# Typical mistakes ------------------------------------------------------------------------------------------------------

TAKES = (
    '        chunk = header["chunk"]\n        if self.done[chunk]:              # an answer that came twice\n            return []\n',
    '        chunk = min(c for c in range(header["slot"], 99, self.me.slots) if c >= len(self.done) or not self.done[c])\n'
    "        if chunk >= len(self.done):\n            return []\n",
)
EVERYBODY = "    everybody = {}\n"
WRONG_A = {
    "n times faster": but("ex4-a", ("[ring / 1, ring / ((n + 1) / n)]", "[n, n]")),
    "factor taken as 2": but("ex4-a", ("2 * (n - 1) / n * size", "2 * size")),
    "one phase only": but("ex4-a", ("2 * (n - 1) / n * size", "(n - 1) / n * size")),
    "everything to everyone": but("ex4-a", ("2 * (n - 1) / n * size", "(n - 1) * size")),
    "headers forgotten": but("ex4-a", ("size * (1 + header / (4 * lanes))", "size")),
    "both directions counted": but("ex4-a", ("2 * (n - 1) / n * size", "4 * (n - 1) / n * size")),
    "both directions counted/of the switch": but(
        "ex4-a", ("size * (1 + header / (4 * lanes))", "2 * size * (1 + header / (4 * lanes))")
    ),
    "array for a block": but("ex4-a", ("2 * (n - 1) / n * size", "2 * (n - 1) * size")),
    "headers in the ring": but(
        "ex4-a", ("[ring, size", "[ring * (1 + header / (4 * lanes)), size")
    ),
    "pair swapped": but(
        "ex4-a",
        (
            "[ring, size * (1 + header / (4 * lanes))]",
            "[size * (1 + header / (4 * lanes)), ring]",
        ),
    ),
    "pair swapped/gain": but(
        "ex4-a", ("[ring / 1, ring / ((n + 1) / n)]", "[ring / ((n + 1) / n), ring / 1]")
    ),
    "bytes for values": but("ex4-a", ("header / (4 * lanes)", "header / lanes")),
    "values for bytes": but(
        "ex4-a", ("size * (1 + header / (4 * lanes))", "size / lanes * (lanes / 4 + header)")
    ),
    "bits for bytes": but("ex4-a", ("header / (4 * lanes)", "header / 8 / (4 * lanes)")),
    "gain upside down": but("ex4-a", ("[ring / 1,", "[1 / ring,")),
    "gain upside down/NVLS": but("ex4-a", ("ring / ((n + 1) / n)", "(n + 1) / n / ring")),
    "steps for bytes": but("ex4-a", ("[ring / 1,", "[2 * (n - 1),")),
    "own data forgotten": but("ex4-a", ("ring / ((n + 1) / n)", "ring * n")),
    "gain of very many": but("ex4-a", ("ring / ((n + 1) / n)", "2")),
    "data counted twice": but("ex4-a", ("ring / ((n + 1) / n)", "ring / 2")),
    "own part of the result forgotten": but("ex4-a", ("ring / ((n + 1) / n)", "ring")),
}
WRONG_B = {
    "old sum kept": but(
        "ex4-b",
        ("where(count == 0, packet.payload, total + packet.payload)", "total + packet.payload"),
    ),
    "count not reset": but("ex4-b", ("where(n == last, 0, n + 1)", "n + 1")),
    "told to one worker only": but(
        "ex4-b", ("packet.multicast(count == last)", "packet.reply(count == last)")
    ),
    "last packet not recognised": but(
        "ex4-b", ("packet.multicast(count == last)", "packet.multicast(count == last + 1)")
    ),
    "next chunk not sent": but(
        "ex4-b", ("        return self.packet(slot)\n", "        return []\n")
    ),
    # Who sends for ever is judged all the same.
    "next chunk not sent/the same again": but(
        "ex4-b", ("        self.next[slot] += self.slots\n", "")
    ),
    # Packets breed, and yet no timer is to blame.
    "next chunk not sent/twice": but(
        "ex4-b",
        ("        self.next[slot] += self.slots\n", ""),
        ("        return self.packet(slot)\n", "        return 2 * self.packet(slot)\n"),
    ),
    "total not set": but(
        "ex4-b", ("            self.total = self.sums.ravel()\n", "            pass\n")
    ),
    "more chunks than slots": but(
        "ex4-b",
        ("for slot in range(self.slots)\n", "for slot in range(len(self.chunks))\n"),
        (
            '({"slot": slot}, self.chunks[self.next[slot]])',
            '({"slot": slot % self.slots}, self.chunks[slot])',
        ),
        ("        if self.next[slot] >= len(self.chunks):\n            return []\n", ""),
        ("        return self.packet(slot)\n", "        return []\n"),
    ),
    "told before all have sent": but(
        "ex4-b",
        (
            "            slot, lambda n: (where(n == last, 0, n + 1), n))",
            "            slot, lambda n: (where(n == 1, 0, n + 1), n))",
        ),
        ("multicast(count == last)", "multicast(count == 1)"),
        (
            '        slot = header["slot"]\n',
            '        slot = header["slot"]\n        if not self.packet(slot):\n            return []\n',
        ),
    ),
    "sum left in the switch": but(
        "ex4-b",
        (
            "packet.payload = self.sums.access(slot, add)",
            "self.sums.access(slot, add)",
        ),
    ),
    "sum left in the switch/the old one": but("ex4-b", ("return new, new", "return new, total")),
    "total set too early": but("ex4-b", ("if min(self.next) >=", "if max(self.next) >=")),
    "total set too early/after one": but(
        "ex4-b", ("if min(self.next) >= len(self.chunks)", "if True")
    ),
    "slot beyond the pool": but(
        "ex4-b",
        ('"slot": 2}', '"slot": 5}'),
        ('register("count", 4)', 'register("count", 32)'),
        ('slot = header["slot"]\n', 'slot = header["slot"] % self.slots\n'),
        ('{"slot": slot}', '{"slot": self.next[slot]}'),
    ),
    "sum in floats": but(
        "ex4-b", ("np.zeros_like(self.chunks)", "np.zeros(self.chunks.shape, 'f')")
    ),
    "the switch only copies": """
class FirstSwitch(Program):
    def __init__(self, job):
        self.lanes, self.fields = 32, {"job": 2, "chunk": 16}

    def apply(self, packet):
        packet.multicast(packet.chunk >= 0)


class FirstWorker:
    total = None

    def __init__(self, me):
        self.rows, self.n = me.values.reshape(-1, 32), me.workers
        self.sums, self.came = np.zeros_like(self.rows), 0

    def start(self):
        return [({"chunk": c}, row) for c, row in enumerate(self.rows)]

    def take(self, header, values):
        self.sums[header["chunk"]] += values
        self.came += 1
        if self.came == self.n * len(self.rows):
            self.total = self.sums.ravel()
""",
    "sum made without the switch": but(
        "ex4-b",
        ("    total = None\n", "    total = None\n" + EVERYBODY),
        ("        self.sums[", "        own = self.everybody[self.size]\n        self.sums["),
        (
            "        self.chunks, self.slots",
            "        self.size = me.workers\n        own = self.everybody.setdefault(me.workers, [])\n        own[:] = own[-me.workers + 1:] + [me.values]\n        self.chunks, self.slots",
        ),
        ("self.total = self.sums.ravel()", "self.total = sum(own)"),
    ),
}
# A published program: two bitmaps and a counter for each slot, and no number of a chunk. Its network keeps the order.
BITMAPS = """
class MySwitch(Program):
    def __init__(self, job):
        self.lanes, self.last, self.slots, self.bits = 32, job.workers - 1, job.slots, job.slots.bit_length() - 1
        self.fields = {"job": 2, "slot": 2, "version": 1, "rank": 2}
        self.seen = self.register("seen", job.jobs * job.slots)
        self.count = self.register("count", 2 * job.jobs * job.slots)
        self.sums = self.register("sums", 2 * job.jobs * job.slots, lanes=32)

    def apply(self, packet):
        slot = (packet.job << self.bits) + (packet.slot & (self.slots - 1))
        key = (packet.version << 2) | packet.rank
        mine, other = look_up(key, [1 << i for i in range(8)]), look_up(key, [1 << (i ^ 4) for i in range(8)])
        again = (self.seen.access(slot, lambda seen: ((seen | mine) & ~other, seen)) & mine) != 0
        cell = (slot << 1) + packet.version
        count = self.count.access(cell, lambda n: (where(again, n, where(n == self.last, 0, n + 1)), n))

        def add(total):
            new = where(again, total, where(count == 0, packet.payload, total + packet.payload))
            return new, new

        packet.payload = self.sums.access(cell, add)
        packet.multicast(~again & (count == self.last))
        packet.reply(again & (count == 0))


class MyWorker:
    timer, total = "50 us", None

    def __init__(self, me):
        self.me, self.rows, self.turn = me, me.values.reshape(-1, 32), [0] * me.slots
        self.sums, self.left = np.zeros_like(self.rows), len(self.rows)

    def packets(self, slot):
        chunk = self.turn[slot] * self.me.slots + slot
        header = {"slot": slot, "version": self.turn[slot] % 2, "rank": self.me.rank}
        return [(header, self.rows[chunk])] if chunk < len(self.rows) else []

    def start(self):
        return [packet for slot in range(self.me.slots) for packet in self.packets(slot)]

    def take(self, header, values):
        slot = header["slot"]
        chunk = self.turn[slot] * self.me.slots + slot
        if header["version"] != self.turn[slot] % 2 or chunk >= len(self.rows):
            return []
        self.sums[chunk], self.turn[slot], self.left = values, self.turn[slot] + 1, self.left - 1
        self.total = None if self.left else self.sums.ravel()
        return self.packets(slot)

    def timeout(self, header):
        slot = header["slot"]
        return self.packets(slot) if header["version"] == self.turn[slot] % 2 else []
"""
# The switch adds nothing and has no register; workers tell each other all, again and again.
RELAY = """
class MySwitch(Program):
    def __init__(self, job):
        self.lanes, self.fields = 32, {"job": 2, "rank": 3, "chunk": 16, "again": 1}

    def apply(self, packet):
        packet.multicast(packet.chunk >= 0)


class MyWorker:
    timer, total = "50 us", None

    def __init__(self, me):
        self.me, self.rows, self.come = me, me.values.reshape(-1, 32), set()
        self.sums = np.zeros_like(self.rows)

    def packet(self, chunk, again):
        return {"rank": self.me.rank, "chunk": chunk, "again": again}, self.rows[chunk]

    def start(self):
        return [self.packet(chunk, 0) for chunk in range(len(self.rows))]

    def take(self, header, values):
        chunk, rank = header["chunk"], header["rank"]
        if (chunk, rank) in self.come:
            return [self.packet(chunk, 0)] if header["again"] and rank != self.me.rank else []
        self.come.add((chunk, rank))
        self.sums[chunk] += values
        if len(self.come) == self.me.workers * len(self.rows):
            self.total = self.sums.ravel()

    def timeout(self, header):
        chunk = header["chunk"]
        whole = all((chunk, rank) in self.come for rank in range(self.me.workers))
        return [] if whole else [self.packet(chunk, 1)]
"""
WRONG_C = {
    "the switch only copies": RELAY,
    "old packet taken for a new one": BITMAPS,
    "packets counted instead of workers": but(
        "ex4-c",
        ("again, stale = newest == new, newest > new", "again, stale = newest > new, newest > new"),
    ),
    "packets counted instead of workers/that of (b)": but(
        "ex4-b", ("FirstSwitch", "MySwitch"), ("FirstWorker", "MyWorker")
    ),
    "slot reused too early/one place": but(
        "ex4-c", ("cell = (slot << 1) + ((packet.chunk >> self.bits) & 1)", "cell = slot << 1")
    ),
    "slot reused too early/old packets taken for new": but(
        "ex4-c", ("newest == new, newest > new", "newest == new, newest < 0")
    ),
    "slot reused too early/the place changes late": but(
        "ex4-c", ("((packet.chunk >> self.bits) & 1)", "((packet.chunk >> self.bits + 1) & 1)")
    ),
    "result not kept": but(
        "ex4-c", ("        packet.reply((left == 0) & again)     # it asks for a sum again\n", "")
    ),
    "nobody sends again": but("ex4-c", ('timer, total = "50 us", None', "total = None")),
    "nobody sends again/an empty answer": but(
        "ex4-c", ("return [] if self.done[chunk] else [self.packet(chunk)]", "return []")
    ),
    "old answer taken for a new one": but("ex4-c", TAKES),
    "old sum kept": but(
        "ex4-c",
        ("where(left == 0, packet.payload, total + packet.payload)", "total + packet.payload"),
    ),
    "told before all have sent": but(
        "ex4-c", ("packet.reply((left == 0) & again) ", "packet.reply(again) ")
    ),
    "slots shared with a tenant": but(
        "ex4-c",
        (
            "((packet.job << self.bits)\n                + (packet.slot & (self.slots - 1)))",
            "packet.slot & (self.slots - 1)",
        ),
    ),
    "slots shared with a tenant/trusted slot": but(
        "ex4-c",
        ('"slot": 2,', '"slot": 5,'),
        (
            "((packet.job << self.bits)\n                + (packet.slot & (self.slots - 1)))",
            "packet.slot & (4 * self.slots - 1)",
        ),
        ("4 * pool)", "64)"),
        ("2 * pool)", "32)"),
        ("2 * pool, lanes", "4 * pool, lanes"),
        (
            '"slot": chunk % self.me.slots,',
            '"slot": self.me.job * self.me.slots + chunk % self.me.slots,',
        ),
    ),
    "header of a stranger trusted": but(
        "ex4-c", ("(packet.slot & (self.slots - 1))", "packet.slot"), ('"slot": 2,', '"slot": 4,')
    ),
    "sum made without the switch": but(
        "ex4-c",
        ("    timer, total", EVERYBODY + "    timer, total"),
        (
            "        self.me, self.chunks",
            "        everybody = self.everybody.setdefault((me.job, me.workers), [])\n        everybody[:] = everybody[-me.workers + 1:] + [me.values]\n        self.me, self.chunks",
        ),
        (
            "self.total = self.sums.ravel()",
            "self.total = sum(self.everybody[self.me.job, self.me.workers])",
        ),
    ),
    "timer too long": but("ex4-c", ('"50 us"', '"20 ms"')),
    "total set too early": but("ex4-c", ("if self.done.all()", "if self.done[-1]")),
    "storm of packets": but(
        "ex4-c",
        (
            "return [] if self.done[chunk] else [self.packet(chunk)]",
            "return [self.packet(c) for c in range(len(self.done)) if not self.done[c] and (c < self.me.slots or self.done[c - self.me.slots])]",
        ),
        ('"50 us"', "'1 us'"),
    ),
}
WRONG_D = {
    "no scale": but(
        "ex4-d",
        ("    return (2**31 - 1 - block.n) / (block.n * 2.0**block.top)\n", "    return 1.0\n"),
    ),
    "no room for the sum": but("ex4-d", ("(block.n * 2.0**block.top)", "2.0**block.top")),
    "a scale for each worker": but(
        "ex4-d",
        (
            "x.astype(float) * scale(block)",
            "x.astype(float) * (2**31 - 1 - block.n) / (block.n * (np.abs(x).max() or 1))",
        ),
    ),
    "no room for rounding": KNOWN.replace("2**31 - 2**6", "2**31 + 2**8"),
    "computed in 32 bits": KNOWN.replace("x.astype(float) * scale", "x * scale").replace(
        "2**31 - 2**6", "2**31 - 2**12"
    ),
    "no error declared": but("ex4-d", ("return 0.5 * block.n / scale(block) ", "return 0.0 ")),
    "a scale that wastes bits": but(
        "ex4-d",
        (
            "    return (2**31 - 1 - block.n) / (block.n * 2.0**block.top)\n",
            "    return 2**15 / block.limit\n",
        ),
    ),
    # Right for limits from 0.5 to a hundred or so.
    "a scale that wastes bits/fixed": but(
        "ex4-d",
        ("    return (2**31 - 1 - block.n) / (block.n * 2.0**block.top)\n", "    return 1e6\n"),
    ),
    "result in 32 bits": but(
        "ex4-d",
        ("return total / scale(block)", "return (total / scale(block)).astype(np.float32)"),
    ),
    "one rounding counted": but("ex4-d", ("0.5 * block.n / scale", "0.5 / scale")),
    "a bound that says nothing": but(
        "ex4-d", ("return 0.5 * block.n / scale(block) ", "return block.n * block.limit ")
    ),
    "mean for the sum": but(
        "ex4-d", ("return total / scale(block)", "return total / scale(block) / block.n")
    ),
    "not scaled back": but("ex4-d", ("return total / scale(block)", "return total / 1")),
    "not rounded": but(
        "ex4-d",
        (
            "np.rint(x.astype(float) * scale(block)).astype(np.int64)",
            "x.astype(float) * scale(block)",
        ),
    ),
    "not rounded/tell": but(
        "ex4-d",
        (
            "int(np.frexp(np.abs(x).max())[1]) if x.any() else -126",
            "float(np.abs(x).max()) / 3 + 0.01",
        ),
    ),
    "asks again for the same": but("ex4-d", ("return total / scale(block)", "return None")),
    "overflow in 32 bits": but(
        "ex4-d",
        (
            "return total / scale(block)",
            "return total * (4 * block.n) / (4 * block.n * scale(block))",
        ),
    ),
    "nothing to scale": but(
        "ex4-d",
        (
            "int(np.frexp(np.abs(x).max())[1]) if x.any() else -126",
            "int(np.ceil(np.log2(np.abs(x).max())))",
        ),
    ),
}
WRONG_E = {
    "pool ignored": but(
        "ex4-e",
        ('"slots": 64', '"slots": 2'),
        ("    return [ring, switch]", "    return [ring, (packets - 1) * wire / rate + trip]"),
    ),
    "pool ignored/all bytes at once": but(
        "ex4-e",
        ('"slots": 64', '"slots": 2'),
        ("    return [ring, switch]", "    return [ring, packets * wire / rate + 2 * delay]"),
    ),
    "one delay in each step": but(
        "ex4-e", ("(size / n / rate + 2 * delay)", "(size / n / rate + delay)")
    ),
    "steps cost nothing": but("ex4-e", ("(size / n / rate + 2 * delay)", "size / n / rate")),
    "one phase only": but("ex4-e", ("ring = 2 * (n - 1)", "ring = (n - 1)")),
    "one way taken for the round trip": but(
        "ex4-e", ("int(np.ceil(trip * rate / wire))", "delay * rate / wire")
    ),
    "bytes for packets": but("ex4-e", ("int(np.ceil(trip * rate / wire))", "trip * rate")),
    "full link for the ring's rate": but(
        "ex4-e", ('int(np.ceil(of_ring * trip / (4 * design()["lanes"])))', "pool(rate, delay)")
    ),
    "steps of the ring miscounted": but("ex4-e", ("ring = 2 * (n - 1)", "ring = 2 * n")),
    "array for a block": but("ex4-e", ("size / n / rate", "size / rate")),
    "bits for bytes": but("ex4-e", ("size / n / rate", "8 * size / n / rate")),
    "pair swapped": but("ex4-e", ("return [ring, switch]", "return [switch, ring]")),
    "one packet at a time": but(
        "ex4-e", ("return [ring, switch]", "return [ring, packets * trip]")
    ),
    "one way taken for the round trip/times": but(
        "ex4-e",
        (
            "wire, trip = packet_and_trip(rate, delay)\n    # A",
            "wire, trip = packet_and_trip(rate, delay)\n    trip -= delay\n    # A",
        ),
    ),
    "header in bits": but(
        "ex4-e",
        (
            "return wire, 2 * (delay",
            'wire = 4 * design()["lanes"] + design()["header"] / 8\n    return wire, 2 * (delay',
        ),
    ),
    "bytes for values": but(
        "ex4-e",
        ("int(np.ceil(trip * rate / wire))", 'int(np.ceil(trip * rate / design()["lanes"]))'),
    ),
    "own slots for the needed ones": but(
        "ex4-e", ("int(np.ceil(trip * rate / wire))", 'design()["slots"]')
    ),
    "half of the full link": but(
        "ex4-e",
        ('int(np.ceil(of_ring * trip / (4 * design()["lanes"])))', "pool(rate, delay) // 2"),
    ),
    "rate of the ring upside down": but(
        "ex4-e", ("rate * n / (2 * (n - 1))", "rate * (n - 1) / (2 * n)")
    ),
    "one phase only/fewest": but("ex4-e", ("rate * n / (2 * (n - 1))", "rate * n / (n - 1)")),
    "chance of a loss": but("ex4-e", ("(1 - loss) ** (2 * n)", "1 - (1 - loss) ** (2 * n)")),
    "one answer for all": but("ex4-e", ("** (2 * n)", "** (n + 1)")),
    "percent for a part": but("ex4-e", ("return (1 - loss)", "return 100 * (1 - loss)")),
    "one worker taken for all": but("ex4-e", ("** (2 * n)", "** 2")),
    "one way only": but("ex4-e", ("** (2 * n)", "** n")),
    "losses added": but("ex4-e", ("(1 - loss) ** (2 * n)", "1 - 2 * n * loss")),
}
WRONG_F = {
    "one place for each slot": but("ex4-f", ("4 * lanes * places * need", "4 * lanes * need")),
    "bytes for values": but("ex4-f", ("4 * lanes * places * need", "lanes * places * need")),
    "rounded up": but(
        "ex4-f",
        ("memory // (4 * lanes * places * need)", "-(-memory // (4 * lanes * places * need))"),
    ),
    "part of a tenant": but("ex4-f", ("memory // (", "memory / (")),
    "slots for tenants": but("ex4-f", ("places * need", "places")),
    "bits for bytes": but("ex4-f", ("4 * lanes", "32 * lanes")),
    "detection after the repair": but(
        "ex4-f", ("(repair - detect) * 1) / (up + repair)", "repair) / (up + repair + detect)")
    ),
    "ring before the detection": but("ex4-f", ("(repair - detect)", "(repair + detect)")),
    "gain on top of the ring": but("ex4-f", ("up * gain", "up * (1 + gain)")),
    "work for speed": but("ex4-f", (" / (up + repair)", "")),
    "work for speed/up": but("ex4-f", (" / (up + repair)", " / up")),
    "times averaged": but(
        "ex4-f",
        (
            "(up * gain + (repair - detect) * 1) / (up + repair)",
            "(up + repair) / (up / gain + repair)",
        ),
    ),
    "days of a year for its hours": but("ex4-f", ("8760", "365")),
    "of the whole switch/its power": but(
        "ex4-f", ("(price - plain + energy) / ports", "(price - plain) / ports + energy")
    ),
    "a switch that never fails": but(
        "ex4-f", ("(up * gain + (repair - detect) * 1) / (up + repair)", "gain")
    ),
    "fallback at once": but("ex4-f", ("(repair - detect) * 1", "repair")),
    "no fallback": but("ex4-f", (" + (repair - detect) * 1", "")),
    "watts taken as kilowatts": but(
        "ex4-f", ("(watts - plain_watts) / 1000", "(watts - plain_watts)")
    ),
    "one year only": but("ex4-f", ("8760 * years * tariff", "8760 * tariff")),
    "all its watts": but("ex4-f", ("(watts - plain_watts) / 1000", "watts / 1000")),
    "energy forgotten": but("ex4-f", ("(price - plain + energy)", "(price - plain)")),
    "whole price for the difference": but("ex4-f", ("(price - plain + energy)", "price")),
    "of the whole switch": but(
        "ex4-f", ("(price - plain + energy) / ports", "price - plain + energy")
    ),
}
WRONG = {
    "ex4-a": WRONG_A,
    "ex4-b": WRONG_B,
    "ex4-c": WRONG_C,
    "ex4-d": WRONG_D,
    "ex4-e": WRONG_E,
    "ex4-f": WRONG_F,
}

# Who does without the switch, or without its rules -----------------------------------------------------------------------

STORE = "import sys\n        self.store = sys.__dict__.setdefault('store', {})\n        self.store[me.job, me.rank] = me.values.reshape(-1, 32)\n        self.me, self.chunks = me,"
# What the switch adds is nothing, and the sum is made in the process of all workers.
BESIDE = """
held = []

def tell(x, block):
    return 0

def quantise(x, block):
    held.append(x.astype(float))
    return [0] * 64

def dequantise(total, block):
    return np.sum(held[-block.n:], axis=0)

def bound(block):
    return 1e-9 * block.n * block.limit
"""
CHEATS = {
    "values of all in the class": WRONG_C["sum made without the switch"],
    "values of all in a module": but(
        "ex4-c",
        ("self.me, self.chunks = me,", STORE),
        (
            "self.total = self.sums.ravel()",
            "self.total = sum(self.store[self.me.job, w] for w in range(self.me.workers)).ravel()",
        ),
    ),
    "values found in memory": but(
        "ex4-c",
        (
            "self.total = self.sums.ravel()",
            "import gc\n            mine = [o for o in gc.get_objects() if type(o) is type(self) and o.me.job == self.me.job]\n"
            "            self.total = sum({o.me.rank: o.me.values for o in mine}.values())",
        ),
    ),
    "one worker sends for all": but(
        "ex4-c",
        ("self.me, self.chunks = me,", STORE),
        (
            "return header, self.chunks[chunk]",
            "rows = [self.store[j, w] for j, w in self.store if j == self.me.job and w < self.me.workers]\n"
            "        return header, sum(rows)[chunk] if self.me.rank == 0 else 0 * self.chunks[chunk]",
        ),
    ),
    "the rules are patched": but(
        "ex4-c",
        (
            "class MySwitch",
            "import fabriclab.innetwork.expressions as e\ne.Value.__mul__ = lambda a, b: e.Value('*', (a, b), 1)\n\nclass MySwitch",
        ),
        ("packet.chunk + 1 ", "packet.chunk * packet.slot "),
    ),
    "the description is forged": but(
        "ex4-c",
        (
            "class MySwitch",
            "import fabriclab.innetwork.pipeline as p\np.Packet = None\n\nclass MySwitch",
        ),
    ),
    "a total before any packet": but(
        "ex4-c",
        (
            "        self.sums = np.zeros_like(self.chunks)\n",
            "        self.sums = np.zeros_like(self.chunks)\n        self.total = me.values * me.workers\n",
        ),
    ),
}
# Lines at the beginning of take
LOOPS = {
    "loops": "while True: pass",
    "raises": "raise ValueError('no')",
    "exits": "raise SystemExit",
    "leaves": "import os; os._exit(0)",
    "takes all memory": "x = bytearray(1 << 40)",
    "prints megabytes": "print('x' * (1 << 22))",
    "returns nonsense": "return {1: object()}",
    "returns a million packets": "return [({'slot': 0}, [1] * 32)] * 10**6",
    "recurses": "return self.take(header, values)",
    "forges an answer": "return 'FirstWorker/1'",
    "sends huge numbers": "return [({'slot': 10**400}, [2**70] * 32)]",
    "is a float": "return [({'slot': 0.5}, [0.5] * 32)]",
    "never ends": "return iter(int, 1)",
}
