"""Routes from paths, and the law that routes keep, by nodes and links one by one."""

import networkx as nx
import numpy as np

from fabriclab.core import PATH, SPRAY, TREE, Routes, pointer
from fabriclab.core._frozen import check_within


def from_paths(paths, flow=None, delay=0.0):
    """Return one `PATH` row per sequence of links, for the flows 0, 1, ... or those given."""
    n, link = len(paths), [x for p in paths for x in p]
    owner = np.arange(n) if flow is None else np.asarray(flow)
    share = 1.0 / np.bincount(owner, minlength=1)[owner]
    delays, use = np.broadcast_to(delay, n), np.ones(len(link))
    return Routes(
        pointer([len(p) for p in paths]),
        link,
        use,
        owner,
        share,
        delays,
        np.full(n, PATH),
        np.zeros(n, bool),
    )


def check_routes(routes, fabric, flows, relays=()):
    """Refuse routes that break the law: paths meet, end where the flow ends, and pass no forbidden node.

    A spray loses nothing on its way, a tree is connected, and the shares of a flow sum to 1, unless an engine chooses
    among its rows. ``relays`` are nodes that forbid transit and yet pass these flows on.
    """
    check_within(routes.link, "link", 0, fabric.n_links - 1)
    fixed = ~np.isin(routes.flow, routes.flow[routes.adaptive])
    total = np.bincount(routes.flow[fixed], weights=routes.share[fixed])
    wrong = np.setdiff1d(
        np.flatnonzero(np.abs(total - 1) > 1e-9), np.setdiff1d(np.arange(total.size), routes.flow)
    )
    if wrong.size:
        msg = f"flow {wrong[0]}: the shares of its routes sum to {total[wrong[0]]:g}, not to 1"
        raise ValueError(msg)
    relay = np.asarray(relays, dtype=np.int64)
    for r in range(routes.n_rows):
        links, flow = routes.row(r), int(routes.flow[r])
        if routes.kind[r] == PATH and links.size:
            inner = _check_path(
                fabric, links, flow, (int(flows.source[flow]), int(flows.target[flow]))
            )
            _check_transit(fabric, np.setdiff1d(inner, relay), f"flow {flow}: its route")
        elif routes.kind[r] == SPRAY and links.size:
            _check_spray(fabric, links, routes.use[routes.ptr[r] : routes.ptr[r + 1]], flow, flows)
            inner = np.setdiff1d(fabric.target[links], [flows.target[flow], *relay])
            _check_transit(fabric, inner, f"flow {flow}: its spray")
        elif routes.kind[r] == TREE and links.size:
            _check_tree(fabric, links, flow)


def _check_path(fabric, links, flow, ends):
    """Return the nodes between the ends."""
    inner = fabric.source[links[1:]]
    if (int(fabric.source[links[0]]), int(fabric.target[links[-1]])) != ends:
        msg = f"flow {flow}: its route does not go from {fabric.name(ends[0])} to {fabric.name(ends[1])}"
    elif np.any(fabric.target[links[:-1]] != inner):
        msg = f"flow {flow}: consecutive links of its route do not meet"
    elif np.unique(np.append(inner, ends)).size != inner.size + 2:
        msg = f"flow {flow}: its route passes a node twice"
    else:
        return inner
    raise ValueError(msg)


def _check_transit(fabric, inner, what):
    if not np.all(fabric.transit[inner]):
        msg = f"{what} passes {fabric.name(int(inner[~fabric.transit[inner]][0]))}, which forbids transit"
        raise ValueError(msg)


def _check_spray(fabric, links, use, flow, flows):
    balance = np.zeros(fabric.n_nodes)
    np.add.at(balance, fabric.source[links], use)
    np.subtract.at(balance, fabric.target[links], use)
    balance[flows.source[flow]] -= 1
    balance[flows.target[flow]] += 1
    if np.max(np.abs(balance)) > 1e-9:
        node = int(np.argmax(np.abs(balance)))
        msg = f"flow {flow}: its spray loses or gains traffic at {fabric.name(node)}"
        raise ValueError(msg)


def _check_tree(fabric, links, flow):
    ends = zip(fabric.source[links].tolist(), fabric.target[links].tolist(), strict=True)
    _, *cut_off = nx.connected_components(nx.Graph(ends))
    if cut_off:
        msg = f"flow {flow}: its tree falls apart; {fabric.name(min(cut_off[0]))} is cut off"
        raise ValueError(msg)
