"""The peers of bench_packet.py: twelve hosts send to four others through one switch, in simpy and in ns.py.

Both move the same packets over the same links as our engine, and nothing else: no acknowledgements, no marks, no
windows. ns.py's sources send at the rate of their cable, so they need no port in front of it.
"""

from __future__ import annotations

from typing import Any

SENDERS, RECEIVERS = 12, 4
RATE = 12.5e9  # of each cable [B/s]: 100 Gb/s
DELAY = 600e-9  # of each cable with the switch behind it [s]
SIZE = 4096 + 62 + 20  # of a packet on a cable: payload, header, preamble and gap [B]
DURATION = SIZE / RATE  # of a packet on a cable [s]


def with_simpy(n_packets: int) -> tuple[float, int]:
    """Return when the last packet has come [s], and how many have; a process for each link."""
    import simpy

    env = simpy.Environment()
    ports = [simpy.Store(env) for _ in range(RECEIVERS)]
    hosts = [simpy.Store(env) for _ in range(SENDERS)]
    came = [0]

    def receive(event: Any) -> None:
        came[0] += 1

    def switch(event: Any) -> None:
        ports[event.value].put(event.value)

    def link(queue: Any, arrive: Any) -> Any:
        """Send what waits in a queue, one packet after another; each arrives after the delay."""
        while True:
            target = yield queue.get()
            yield env.timeout(DURATION)
            env.timeout(DELAY, target).callbacks.append(arrive)

    for host, queue in enumerate(hosts):
        for _ in range(n_packets):
            queue.put(host % RECEIVERS)
        env.process(link(queue, switch))
    for queue in ports:
        env.process(link(queue, receive))
    env.run()
    return env.now, came[0]


def with_ns(n_packets: int) -> tuple[float, int]:
    """Return when the last packet has come [s], and how many have; parts of ns.py."""
    import simpy
    from ns.packet.dist_generator import DistPacketGenerator
    from ns.packet.sink import PacketSink
    from ns.port.wire import Wire
    from ns.switch.switch import SimplePacketSwitch

    env = simpy.Environment()
    room = SENDERS * n_packets
    switch = SimplePacketSwitch(env, RECEIVERS, 8 * RATE, room)
    switch.demux.fib = {host: host % RECEIVERS for host in range(SENDERS)}
    for host in range(SENDERS):
        source = DistPacketGenerator(
            env, host, lambda: DURATION, lambda: SIZE, size=n_packets * SIZE, flow_id=host
        )
        source.out = Wire(env, lambda: DELAY)
        source.out.out = switch
    sinks = [PacketSink(env, rec_arrivals=False, rec_waits=False) for _ in range(RECEIVERS)]
    for port, sink in zip(switch.ports, sinks, strict=True):
        port.out = Wire(env, lambda: DELAY)
        port.out.out = sink
    env.run()
    return env.now, sum(sum(sink.packets_received.values()) for sink in sinks)
