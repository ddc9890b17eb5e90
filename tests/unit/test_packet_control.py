"""Control loops alone: one kernel call after another, with times and marks made by hand."""

from math import sqrt

import pytest

from fabriclab import registry, scenarios
from fabriclab.engines.packet import state
from fabriclab.engines.packet.control import Place, aimd, dcqcn, hpcc, nscc, timely

LINE = 12.5e9  # 100 Gb/s
TRIP = 12_000_000  # [ps]
US = 1_000_000  # [ps]
PLACE = Place(LINE, 12e-6, 4096)


class Sender:
    """A connection with the numbers that its control loop keeps."""

    def __init__(self, name, place=PLACE, **options):
        self.loop = registry.get("control", name)(place, **options)
        self.own = [0.0] * state.WIDTH
        self.own[state.LINE] = LINE
        self.own[state.ROUND_TRIP] = float(TRIP)
        self.own[state.N_HOPS] = 2.0
        self.loop.on_start(self.loop.parameters, self.own, 0, 0)

    @property
    def window(self):
        return self.own[state.WINDOW]

    @property
    def rate(self):
        return self.own[state.RATE]

    def hear(self, now, trip=TRIP, acked=4096, marked=0, lost=0, load=-1.0):
        self.loop.on_feedback(
            self.loop.parameters, self.own, 0, now, trip, acked, marked, lost, load
        )

    def send(self, now):
        self.loop.on_send(self.loop.parameters, self.own, 0, now, 4096)
        self.own[state.SENT] += 4096


@pytest.mark.parametrize("name", registry.names("control"))
def test_every_loop_opens_a_window_and_a_rate_within_the_port(name):
    sender = Sender(name)
    assert sender.window >= PLACE.payload
    assert 0 < sender.rate <= LINE
    for step in range(200):
        now = TRIP + step * US
        sender.send(now)
        trip = TRIP + (step % 50) * US
        sender.hear(now, trip, marked=step % 3 == 0, lost=int(step % 40 == 39), load=step / 100)
        assert sender.window > 0
        assert sender.rate > 0


# DCQCN ----------------------------------------------------------------------------------------------------------------


def test_paper_dcqcn_cuts_with_the_notice_and_recovers_by_halves():
    sender = Sender("dcqcn", parameters="paper")
    sender.hear(100 * US, marked=1)
    assert sender.rate == LINE / 2  # alpha is 1
    sender.hear(149 * US, marked=1)
    assert sender.rate == LINE / 2  # within the gap
    sender.send(154 * US)
    assert sender.rate == LINE / 2
    sender.send(155 * US)
    assert sender.rate == LINE * 3 / 4  # 55 us behind the cut
    sender.send(210 * US)
    assert sender.rate == LINE * 7 / 8


def test_alpha_of_the_paper_decays_every_55_us_and_rises_with_a_notice():
    sender = Sender("dcqcn", parameters="paper")
    sender.hear(0, marked=1)
    sender.send(110 * US)
    assert sender.own[dcqcn.ALPHA] == pytest.approx((255 / 256) ** 2)
    sender.hear(110 * US, marked=1)
    alpha = (255 / 256) ** 2
    assert sender.own[dcqcn.ALPHA] == pytest.approx(alpha * 255 / 256 + 1 / 256)
    assert sender.rate == pytest.approx(LINE * 7 / 8 * (1 - alpha / 2))


def test_the_paper_steps_after_five_rises():
    sender = Sender("dcqcn", parameters="paper")
    sender.own[state.RATE] = LINE / 4
    sender.hear(0, marked=1)
    sender.send(5 * 55 * US)
    assert sender.own[dcqcn.TARGET] == LINE / 4
    sender.send(6 * 55 * US)
    assert sender.own[dcqcn.TARGET] == LINE / 4 + 40e6 / 8


def test_the_byte_counter_counts_bytes_that_were_sent():
    sender = Sender("dcqcn", parameters="paper")
    sender.hear(0, marked=1)
    before = sender.rate
    for _ in range(3000):  # 3,000 attempts, none of which sends
        sender.loop.on_send(sender.loop.parameters, sender.own, 0, US, 4096)
    assert sender.rate == before
    sender.own[state.SENT] += 10e6
    sender.loop.on_send(sender.loop.parameters, sender.own, 0, US, 4096)
    assert sender.rate == (before + LINE) / 2


def test_a_card_cuts_by_its_clock():
    """The marks of 4 us are one cut at their end, and alpha sees those of each microsecond."""
    sender = Sender("dcqcn", parameters="hpcc_simulator")
    sender.hear(10 * US, marked=1)
    assert sender.rate == LINE
    sender.hear(11 * US + US // 2, marked=1)
    sender.send(14 * US)
    assert sender.rate == LINE
    sender.send(14 * US + 1000)
    g = 1 / 256
    alpha = 1.0
    for is_marked in (0, 1, 0, 0):  # at 11, 12, 13 and 14 us
        alpha = (1 - g) * alpha + g * is_marked
    assert sender.rate == pytest.approx(LINE * (1 - alpha / 2))
    sender.send(100 * US)
    assert sender.rate == pytest.approx(
        LINE * (1 - alpha / 2)
    )  # no mark, no cut; no rise before 300 us
    sender.send(314 * US + 1000)
    assert sender.rate == pytest.approx((LINE * (1 - alpha / 2) + LINE) / 2)


# HPCC, DCTCP, Swift, TIMELY, loss -------------------------------------------------------------------------------------


def test_the_reference_of_hpcc_changes_once_per_round_trip_whatever_it_lasts():
    sender = Sender("hpcc", eta=0.95, stages=0, step=0)
    full = LINE * 12e-6
    slow = 3 * TRIP  # queues make the trip longer than an empty one
    sender.hear(slow, slow)  # the first tells nothing
    sender.hear(slow + US, slow, load=1.9)
    sender.hear(2 * slow, slow, load=1.9)
    reference = sender.own[hpcc.REFERENCE]
    sender.hear(2 * slow + TRIP, slow, load=1.9)  # sent before the reference changed
    assert sender.own[hpcc.REFERENCE] == reference
    sender.hear(3 * slow, slow, load=1.9)
    assert sender.own[hpcc.REFERENCE] < reference <= full


def test_the_window_of_hpcc_is_the_reference_over_the_load():
    sender = Sender("hpcc", eta=0.5, stages=0, step=1000)
    sender.hear(TRIP)
    sender.hear(TRIP + 2 * TRIP, 1, load=1.0)  # a whole round trip of load 1
    assert sender.window == pytest.approx(LINE * 12e-6 / 2 + 1000)
    assert sender.rate == pytest.approx(sender.window / 12e-6)


def test_dctcp_cuts_by_half_of_the_marked_share():
    sender = Sender("dctcp", g=1.0)
    full = sender.window
    for i in range(4):
        sender.hear(TRIP - 4 + i, TRIP, marked=0)
    sender.hear(TRIP, TRIP)
    assert sender.window == full + 4096  # a round trip without marks
    for i in range(4):
        sender.hear(TRIP + 1 + i, TRIP, marked=0)
    sender.hear(2 * TRIP, TRIP)  # alpha is 0
    before = sender.window
    sender.hear(2 * TRIP + 5, TRIP, marked=1)
    assert sender.window == before


def test_swift_grows_below_its_target_and_cuts_above_it():
    sender = Sender("swift")
    base = 20e-6
    hops = 2 * base / 6.55
    a = 5 * base / (1 / sqrt(0.1) - 1 / sqrt(100))
    packets = sender.window / 4096
    target = base + hops + max(0.0, a / sqrt(packets) - a / sqrt(100))
    under = round((target - 1e-6) * 1e12)
    over = round((target + 4e-6) * 1e12)
    sender.hear(100 * US, under)
    assert sender.window / 4096 == pytest.approx(packets + 1 / packets)
    packets = sender.window / 4096
    target = base + hops + max(0.0, a / sqrt(packets) - a / sqrt(100))
    sender.hear(200 * US, over)
    keep = 1 - 0.8 * (over / 1e12 - target) / (over / 1e12)
    assert sender.window / 4096 == pytest.approx(packets * keep)
    before = sender.window
    sender.hear(201 * US, over)
    assert sender.window == before  # once per round trip


def test_timely_follows_the_gradient():
    sender = Sender("timely", first=0.5)
    sender.hear(100 * US, 60 * US)
    sender.hear(200 * US, 80 * US)  # 20 us longer than before, one shortest round trip
    assert sender.rate == pytest.approx(LINE / 2 * (1 - 0.8 * 0.875))
    assert sender.own[timely.STAGE] == 0
    before = sender.rate
    sender.hear(300 * US, 20 * US)  # below 50 us
    assert sender.rate == before + 100e6 / 8
    sender.hear(1400 * US, 1000 * US)  # above 500 us
    assert sender.rate == pytest.approx((before + 100e6 / 8) * (1 - 0.8 * 0.5))


def test_tcp_doubles_until_a_loss_and_cuts_once_per_round_trip():
    sender = Sender("aimd", keep=0.5)
    for i in range(10):
        sender.hear(TRIP + i)
    assert sender.window == 20 * 4096
    sender.hear(2 * TRIP, lost=1)
    sender.hear(2 * TRIP + US, lost=1)
    assert sender.window == 10 * 4096
    for i in range(10):
        sender.hear(3 * TRIP + i)
    assert sender.window == pytest.approx(11 * 4096, rel=0.01)
    sender.hear(4 * TRIP, lost=2)
    assert sender.window == 4096
    assert sender.own[aimd.LIMIT] > 4096


def test_cubic_and_reno_have_the_same_mean():
    """RFC 9438, section 4.3: the gain that goes with keep = 0.7 is 3 x 0.3 / 1.7."""
    assert Sender("aimd").loop.parameters[aimd.GAIN] == pytest.approx(0.529, abs=1e-3)
    assert Sender("aimd", keep=0.5).loop.parameters[aimd.GAIN] == 1


# NSCC -----------------------------------------------------------------------------------------------------------------


def test_nscc_scales_as_its_simulator_does():
    """400 Gb/s, 12 us, packets of 4,096 B: a = 4, fair increase 81,920 B, constant increase 2,458 B."""
    values = registry.get("control", "nscc")(Place(50e9, 12e-6, 4096)).parameters
    assert values[nscc.TARGET] == pytest.approx(9 * US)
    assert values[nscc.FAIR] == pytest.approx(81_920)
    assert values[nscc.ETA] == pytest.approx(2457.6)
    assert values[nscc.FAST] == pytest.approx(1)


def window_after(delay, marked):
    """Return how the window of a sender changes over 40 acknowledgements of equal delay."""
    sender = Sender("nscc", first=0.5)
    sender.own[nscc.MEAN] = float(delay)
    before = sender.window
    for i in range(40):
        sender.send(TRIP + i * US)
        sender.hear(TRIP + delay + i * US, TRIP + delay, marked=marked)
    return sender.window / before


def test_the_four_quadrants_of_nscc():
    short = 4 * US
    long = 12 * US  # the target is 9 us
    constant = 1 + 4 * 0.15 * 4096 / (
        0.5 * 150e3
    )  # one for each round trip of 51 us, and what is begun
    assert window_after(short, 0) > 1
    assert window_after(long, 0) > 1
    assert 1 <= window_after(short, 1) <= constant
    assert window_after(long, 1) < 1


def test_quick_adapt_takes_what_came_through():
    sender = Sender("nscc")
    sender.hear(TRIP)  # the first look
    for i in range(3):
        sender.send(TRIP)
        sender.hear(TRIP + (i + 1) * US, acked=2000)
    later = 3 * TRIP
    sender.hear(later, lost=1)
    assert sender.window == 6000


def test_a_trimmed_packet_leaves_the_window_smaller_by_itself():
    sender = Sender("nscc")
    before = sender.window
    sender.hear(US, lost=1)
    assert sender.window == before - 4096


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hpcc", {"eta": 1.0}),
        ("aimd", {"keep": 0.0}),
        ("aimd", {"gain": 0.0}),
        ("srd", {"target": 1.0}),
        ("timely", {"first": 0.0}),
    ],
)
def test_parameters_out_of_range_are_refused(name, options):
    with pytest.raises(ValueError, match="must be"):
        Sender(name, **options)


@pytest.mark.parametrize("balance", ["adaptive", "spray"])
def test_hpcc_compares_reports_of_one_link_only(balance):
    """Packets of several paths bring reports of several links; a difference between their counters says nothing."""
    scenario = scenarios.ecmp_collision(8, "256 KiB", slow_path=0.5)
    settings = {"balance": balance, "recovery": "selective"}
    without_loop = scenario.play(control="window", **settings).finish.max()
    with_loop = scenario.play(control="hpcc", **settings).finish.max()
    assert with_loop < 1.05 * without_loop  # 1.24 and 1.08 if counters of two links are compared
