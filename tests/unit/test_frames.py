"""Frames byte by byte: sizes from fields, a captured packet, and what is no frame."""

import numpy as np
import pytest

from fabriclab.engines.packet import Settings
from fabriclab.physics import frames

# A congestion notice captured on a ConnectX-4 Lx, without its FCS.
# source: secdev/scapy at 05c24f8, test/contrib/roce.uts, "RoCE CNP captured on ConnectX-4 Lx"
CAPTURED = bytes.fromhex(
    "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a0012010000"
    "12b7002800008100ffff40000118000000000000000000000000000000000000000082fd002a"
)


def test_overhead_and_goodput_follow_from_the_fields():
    v2 = frames.roce_v2(bytes(4096))
    # Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4, FCS 4, preamble 8, gap 12
    assert [h.size for h in (*v2.headers, *v2.trailers)] == [14, 20, 8, 12, 4, 4]
    assert v2.overhead == 82
    assert v2.goodput == pytest.approx(4096 / 4178)
    v1 = frames.roce_v1(bytes(4096))
    assert [h.size for h in v1.headers] == [14, 40, 12]
    assert v1.overhead == 94
    assert frames.infiniband(bytes(4096)).overhead == 8 + 12 + 4 + 2
    assert frames.infiniband(bytes(4096), routed=True).overhead == 66


def test_the_engine_sends_and_stores_the_sizes_of_a_frame():
    frame = frames.roce_v2(bytes(4096))
    settings = Settings()
    assert settings.header == len(bytes(frame)) - frame.data
    assert settings.gap == frames.PREAMBLE + frames.GAP


def test_a_captured_notice_is_read_as_it_was_sent():
    frame = frames.dissect(CAPTURED, fcs=False)
    assert frame.kind == "RoCE v2"
    assert bytes(frame) == CAPTURED
    assert frame["UDP"]["destination port"] == 4791
    assert frame["IPv4"]["total length"] == 60
    assert frame["IPv4"]["ECN"] == 2
    assert frame["BTH"]["opcode"] == 0x81  # notice of congestion
    assert frame["BTH"]["BECN"] == 1
    assert frame["BTH"]["FECN"] == 0
    assert frame["BTH"]["destination QP"] == 0x118
    assert frame["ICRC"]["check"] == 0x82FD002A
    assert frames.is_intact(frame)


def test_every_changed_bit_that_no_switch_may_change_breaks_the_check():
    # All bits of UDP ports and length, of the QP, the packet number and the payload; not TTL, ECN and FECN.
    for byte, intact in (
        (15, True),
        (22, True),
        (35, False),
        (47, False),
        (53, False),
        (60, False),
    ):
        changed = bytearray(CAPTURED)
        changed[byte] ^= 1
        assert frames.is_intact(frames.dissect(bytes(changed), fcs=False)) == intact, byte


def test_the_header_of_ipv4_sums_to_zero():
    ip = frames.dissect(CAPTURED, fcs=False)["IPv4"].pack()
    for packed in (ip, frames.roce_v2(b"abc")["IPv4"].pack()):
        words = np.frombuffer(packed, ">u2").astype(int).sum()
        assert (words & 0xFFFF) + (words >> 16) == 0xFFFF


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 1024, 4096])
def test_what_is_built_is_read_back(size):
    data = np.random.default_rng(size).bytes(size)
    for frame, link in (
        (frames.roce_v1(data, qp=7, psn=9), "ethernet"),
        (frames.roce_v2(data, qp=7, psn=9, ecn=3), "ethernet"),
        (frames.infiniband(data, qp=7, psn=9, lane=3), "infiniband"),
        (frames.infiniband(data, qp=7, psn=9, routed=True), "infiniband"),
    ):
        again = frames.dissect(bytes(frame), link)
        assert again == frame
        assert again["BTH"]["destination QP"] == 7
        assert again["BTH"]["packet number"] == 9
        assert again.data == size
        assert again.payload[:size] == data
        assert frames.is_intact(again)


def test_the_place_of_fields_on_the_wire():
    v1 = bytes(frames.roce_v1(b"data", qp=0x123456, psn=0xABCDEF))
    assert v1[12:14] == bytes.fromhex("8915")
    assert v1[14] >> 4 == 6  # version of the global header
    assert v1[20] == 0x1B  # next header
    bth = v1[54:66]
    assert bth[0] == 0x07
    assert bth[5:8] == bytes.fromhex("123456")
    assert bth[9:12] == bytes.fromhex("abcdef")
    v2 = bytes(frames.roce_v2(b"data"))
    assert v2[12:14] == bytes.fromhex("0800")
    assert v2[36:38] == (4791).to_bytes(2, "big")
    assert int.from_bytes(v2[16:18], "big") == len(v2) - 14 - 4
    assert int.from_bytes(v2[38:40], "big") == len(v2) - 14 - 20 - 4
    ib = bytes(frames.infiniband(b"data", source=0x11, target=0x22))
    assert ib[2:4] == bytes.fromhex("0022")
    assert ib[6:8] == bytes.fromhex("0011")
    assert 4 * int.from_bytes(ib[4:6], "big") == len(ib) - 2


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (CAPTURED[:30], "IPv4 takes 20 B"),
        (CAPTURED[:12] + b"\x86\xdd" + CAPTURED[14:], "0x86dd"),
        (CAPTURED[:23] + b"\x06" + CAPTURED[24:], "no UDP"),
        (CAPTURED[:36] + b"\x00\x35" + CAPTURED[38:], "UDP port 53"),
    ],
)
def test_other_bytes_are_refused(data, said):
    with pytest.raises(ValueError, match=said):
        frames.dissect(data, fcs=False)


def test_values_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="destination QP"):
        frames.roce_v2(b"", qp=1 << 24)


def test_a_table_names_every_field():
    rows = frames.roce_v2(bytes(8)).rows()
    assert ["36", "UDP", "destination port", "16", "0x12b7"] in rows
    assert sum(int(row[3]) for row in rows[1:]) == 8 * (82 + 8)
    assert "goodput" in frames.roce_v2(bytes(8))._repr_html_()
