"""A small transformer that is trained for one step on numpy buffers under a layout, to see what is really sent.

All ranks live in one process. Every byte between them goes through a schedule of `fabriclab.collectives`, which
`Wire` executes and counts. A tape records how to go back: the gradient of a collective is a collective, so the
backward pass communicates as in a real framework. The model is exact (float64), so that its gradients can be compared
with those of the same program on one rank.
"""

from collections import defaultdict

import numpy as np

from fabriclab import collectives
from fabriclab.workload.layouts import Layout

RATE = 0.5  # of the optimiser, which goes down the gradient
NORM = 1e-6  # keeps a norm from dividing by 0


class Var:
    """An array with its gradient."""

    def __init__(self, data):
        self.data = data
        self.grad = None if data is None else np.zeros_like(data)


class Wire:
    """Execute schedules between ranks, and count the bytes that each rank sends by purpose."""

    def __init__(self, ranks):
        self.sent = defaultdict(lambda: np.zeros(ranks))

    def run(self, purpose, collective, members, arrays):
        """Run a collective on one flat array for each member; return one for each."""
        n = len(members)
        if n == 1:
            return [array.copy() for array in arrays]
        algorithm = "direct" if collective == "all_to_all" else "ring"
        schedule = collectives.build(collective, algorithm, n)
        total = arrays[0].size
        if collective in ("all_gather", "all_to_all"):
            total *= n  # the blocks of all ranks
        self.count(purpose, schedule, members, total, arrays[0].itemsize)
        return collectives.execute(schedule, arrays)

    def send(self, purpose, source, target, array):
        """Send an array from one rank to another."""
        if source == target:
            return array.copy()
        schedule = collectives.build("broadcast", "ring", 2)
        self.count(purpose, schedule, [source, target], array.size, array.itemsize)
        return collectives.execute(schedule, array.ravel())[1].reshape(array.shape)

    def count(self, purpose, schedule, members, total, bytes_each):
        """Add what each member sends in the transfers of a schedule, of ``total`` numbers in equal blocks."""
        assert total % schedule.n_blocks == 0, "blocks of equal length make the count exact"
        block = total // schedule.n_blocks * bytes_each
        for group in schedule.groups:
            blocks = np.bincount(group.source, group.count, len(members)) * group.repeat
            self.sent[purpose][members] += blocks * block


# ---- computation on one rank -------------------------------------------------------------------------------------


class Tape:
    """Operations on `Var`, and how to go back through them."""

    def __init__(self):
        self.steps = []

    def backward(self):
        """Go back through all operations."""
        for step in reversed(self.steps):
            step()
        self.steps = []

    def linear(self, x, function, inverse):
        """Apply a rearrangement of numbers, given with its inverse."""
        y = Var(function(x.data))

        def back():
            x.grad += inverse(y.grad)

        self.steps.append(back)
        return y

    def add(self, *terms):
        """Add arrays."""
        y = Var(sum(term.data for term in terms))

        def back():
            for term in terms:
                term.grad += y.grad

        self.steps.append(back)
        return y

    def matmul(self, x, w):
        """Multiply tokens by a matrix, which is read again on the way back: it may have been given away."""
        y = Var(x.data @ w.data)

        def back():
            x.grad += y.grad @ w.data.T
            w.grad += x.data.T @ y.grad

        self.steps.append(back)
        return y

    def rows(self, x, index):
        """Take rows of an array, some perhaps several times."""
        y = Var(x.data[index])

        def back():
            np.add.at(x.grad, index, y.grad)

        self.steps.append(back)
        return y

    def norm(self, x, w):
        """Divide each token by its root mean square, and multiply by weights."""
        root = np.sqrt(np.mean(x.data**2, axis=-1, keepdims=True) + NORM)
        unit = x.data / root
        y = Var(unit * w.data)

        def back():
            w.grad += np.sum(y.grad * unit, axis=0)
            g = y.grad * w.data
            x.grad += (g - unit * np.mean(g * unit, axis=-1, keepdims=True)) / root

        self.steps.append(back)
        return y

    def gate(self, a, b):
        """Multiply ``b`` by SiLU(a)."""
        s = 1 / (1 + np.exp(-a.data))
        y = Var(a.data * s * b.data)

        def back():
            a.grad += y.grad * b.data * s * (1 + a.data * (1 - s))
            b.grad += y.grad * a.data * s

        self.steps.append(back)
        return y

    def attend(self, q, k, v, place, places):
        """Return causal attention of queries (T, heads, d) at some places to keys and values (S, kv heads, d)."""
        group = q.data.shape[1] // k.data.shape[1]
        hidden = places[None, :] > place[:, None]
        scale = 1 / np.sqrt(q.data.shape[2])

        def wide(x):
            return np.repeat(x, group, axis=1)

        def narrow(x):
            return x.reshape(x.shape[0], -1, group, x.shape[2]).sum(axis=2)

        score = np.einsum("thd,shd->hts", q.data, wide(k.data)) * scale
        score[:, hidden] = -np.inf
        p = np.exp(score - score.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        y = Var(np.einsum("hts,shd->thd", p, wide(v.data)))

        def back():
            gp = np.einsum("thd,shd->hts", y.grad, wide(v.data))
            gs = p * (gp - np.sum(gp * p, axis=-1, keepdims=True)) * scale
            v.grad += narrow(np.einsum("hts,thd->shd", p, y.grad))
            k.grad += narrow(np.einsum("hts,thd->shd", gs, q.data))
            q.grad += np.einsum("hts,shd->thd", gs, wide(k.data))

        self.steps.append(back)
        return y

    def mix(self, x, score, chosen):
        """Return for each token the sum of its k rows of ``x`` (T, k, h), weighted by softmax of the chosen scores."""
        picked = np.take_along_axis(score.data, chosen, axis=1)
        p = np.exp(picked - picked.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        y = Var(np.einsum("tk,tkh->th", p, x.data))

        def back():
            x.grad += p[:, :, None] * y.grad[:, None, :]
            gp = np.einsum("th,tkh->tk", y.grad, x.data)
            gs = p * (gp - np.sum(gp * p, axis=1, keepdims=True))
            np.put_along_axis(
                score.grad, chosen, np.take_along_axis(score.grad, chosen, axis=1) + gs, axis=1
            )

        self.steps.append(back)
        return y


# ---- a step on all ranks -----------------------------------------------------------------------------------------


def make_weights(model, seed=0):
    """Return the weights of a model by unit: ``"input"``, ``"output"`` and the number of each layer."""
    rng = np.random.default_rng(seed)
    h, d = model.hidden, model.head_size

    def matrix(*shape):
        return rng.normal(size=shape) * 0.3

    units = {"input": {"table": matrix(model.vocabulary, h)}}
    for layer in range(model.layers):
        unit = {
            "norm1": 1 + matrix(h),
            "norm2": 1 + matrix(h),
            "wq": matrix(h, model.heads * d),
            "wk": matrix(h, model.kv_heads * d),
            "wv": matrix(h, model.kv_heads * d),
            "wo": matrix(model.heads * d, h),
        }
        if model.moe_layers[layer]:
            unit["router"] = matrix(h, model.experts)
            for e in range(model.experts):
                unit[f"gate.{e}"] = matrix(h, model.expert_feed_forward)
                unit[f"up.{e}"] = matrix(h, model.expert_feed_forward)
                unit[f"down.{e}"] = matrix(model.expert_feed_forward, h)
        else:
            unit["gate"] = matrix(h, model.feed_forward)
            unit["up"] = matrix(h, model.feed_forward)
            unit["down"] = matrix(model.feed_forward, h)
        units[layer] = unit
    units["output"] = {"norm": 1 + matrix(h)}
    if not model.tied:
        units["output"]["table"] = matrix(model.vocabulary, h)
    return units


_COLUMNS = (
    "wq",
    "wk",
    "wv",
    "gate",
    "up",
)  # matrices whose columns are divided; rows of the others
_WHOLE = ("norm", "norm1", "norm2", "router")


def slice_of(name, array, part, parts):
    """Return the part of an array that one of several tensor-parallel ranks has."""
    kind = name.split(".")[0]
    if kind in _WHOLE:
        return array
    axis = 1 if kind in _COLUMNS else 0
    return np.split(array, parts, axis=axis)[part]


class Job:
    """A step of training under a layout: `step` runs it; `gradient_of` and `wire` tell what came out and was sent."""

    def __init__(self, model, layout, weights):
        self.model = model
        self.layout = layout
        self.wire = Wire(layout.ranks)
        self.tape = Tape()
        self.old = weights
        self.tables = {}  # groups by kind
        self.group_of = {}
        for kind in (
            "tp",
            "cp",
            "dp_cp",
            "ep",
            "etp",
            "edp",
            "shard",
            "replica",
            "expert_shard",
            "expert_replica",
        ):
            groups = layout.groups(kind)
            self.tables[kind] = groups
        self.part_of = {}
        for stage, parts in enumerate(layout.parts(model)):
            for chunk, layers in enumerate(parts):
                for layer in layers:
                    self.part_of[int(layer)] = (chunk * layout.pp + stage, stage)
        self.params = [self._own(rank) for rank in range(layout.ranks)]
        self.gradients = {}  # (rank, unit, kind) -> part of the gradient that the rank keeps

    # ---- who has what --------------------------------------------------------------------------------------------

    def place(self, rank):
        """Return stage, replica, context rank and tensor rank of a rank."""
        return np.unravel_index(
            rank, (self.layout.pp, self.layout.dp, self.layout.cp, self.layout.tp)
        )

    def units_of(self, stage):
        """Return the units that a stage has."""
        units = [layer for layer in range(self.model.layers) if self.part_of[layer][1] == stage]
        if stage == 0:
            units.insert(0, "input")
        if stage == self.layout.pp - 1:
            units.append("output")
        return units

    def _own(self, rank):
        """Return the parameters of a rank, as `Var` by unit and name."""
        layout = self.layout
        stage, _, _, t = self.place(rank)
        inside = rank % layout.stage_ranks
        etp = inside % layout.etp
        ep = inside // layout.etp % layout.ep
        own = {}
        for unit in self.units_of(stage):
            own[unit] = {}
            arrays = dict(self.old[unit])
            if unit == "output" and self.model.tied:
                arrays["table"] = self.old["input"]["table"]
            for name, array in arrays.items():
                if "." in name:
                    per_rank = self.model.experts // layout.ep
                    if int(name.split(".")[1]) // per_rank == ep:
                        own[unit][name] = Var(slice_of(name, array, etp, layout.etp).copy())
                else:
                    own[unit][name] = Var(slice_of(name, array, t, layout.tp).copy())
        if self.model.tied and layout.pp == 1:
            own["output"]["table"] = own["input"]["table"]
        return own

    def names(self, rank, unit, kind):
        """Return the names of a unit's parameters that are experts' (``"expert"``) or not (``"dense"``)."""
        found = []
        for name in self.params[rank][unit]:
            if unit == "output" and name == "table" and self.model.tied and self.layout.pp == 1:
                continue  # it is the input's
            if ("." in name) == (kind == "expert"):
                found.append(name)
        return found

    def flat(self, rank, unit, kind, what):
        """Return data or gradients of a unit as one array; norms and biases of divided layers are whole."""
        arrays = [
            getattr(self.params[rank][unit][n], what).ravel() for n in self.names(rank, unit, kind)
        ]
        return np.concatenate(arrays) if arrays else np.zeros(0)

    def unflat(self, rank, unit, kind, values):
        """Write one array back into the parameters of a unit."""
        start = 0
        for name in self.names(rank, unit, kind):
            var = self.params[rank][unit][name]
            shape = var.shape if var.data is None else var.data.shape
            size = int(np.prod(shape))
            var.data = values[start : start + size].reshape(shape)
            start += size

    # ---- collectives as operations -------------------------------------------------------------------------------

    def together(self, kind, states, purpose, forward, backward, shape=None):
        """Run a collective on the states of ranks now, and another one on their gradients on the way back."""
        out = {}
        for group in self.tables[kind]:
            if group[0] not in states:
                continue
            members = group.tolist()
            xs = [states[rank] for rank in members]
            ys = [Var(y) for y in forward(purpose, members, [x.data for x in xs])]

            def back(members=members, xs=xs, ys=ys):
                grads = backward(purpose, members, [y.grad for y in ys])
                for x, grad in zip(xs, grads, strict=True):
                    x.grad += grad

            self.tape.steps.append(back)
            out.update(zip(members, ys, strict=True))
        return out

    def same(self, purpose, members, arrays):
        """Send nothing."""
        return [array.copy() for array in arrays]

    def summed(self, purpose, members, arrays):
        """All-reduce."""
        flat = self.wire.run(purpose, "all_reduce", members, [a.ravel() for a in arrays])
        return [y.reshape(a.shape) for y, a in zip(flat, arrays, strict=True)]

    def gathered(self, purpose, members, arrays):
        """All-gather along the first axis."""
        flat = self.wire.run(purpose, "all_gather", members, [a.ravel() for a in arrays])
        return [y.reshape(-1, *arrays[0].shape[1:]) for y in flat]

    def scattered(self, purpose, members, arrays):
        """Reduce-scatter along the first axis."""
        flat = self.wire.run(purpose, "reduce_scatter", members, [a.ravel() for a in arrays])
        return [y.reshape(-1, *arrays[0].shape[1:]) for y in flat]

    def exchanged(self, purpose, members, arrays):
        """All-to-all of equal parts of the first axis."""
        flat = self.wire.run(purpose, "all_to_all", members, [a.ravel() for a in arrays])
        return [y.reshape(a.shape) for y, a in zip(flat, arrays, strict=True)]

    def enter(self, states, purpose="tensor"):
        """Enter a layer whose matrices are divided."""
        if self.layout.sequence_parallel:
            return self.together("tp", states, purpose, self.gathered, self.scattered)
        return self.together("tp", states, purpose, self.same, self.summed)

    def leave(self, states, purpose="tensor"):
        """Leave a layer whose matrices are divided: add what the ranks have."""
        if self.layout.sequence_parallel:
            return self.together("tp", states, purpose, self.scattered, self.gathered)
        return self.together("tp", states, purpose, self.summed, self.same)

    # ---- layers --------------------------------------------------------------------------------------------------

    def gather_unit(self, ranks, unit):
        """Gather the parameters of a unit, of which each rank has a part, for some ranks."""
        for kind, group_kind in (("dense", "shard"), ("expert", "expert_shard")):
            purpose = "parameters" if kind == "dense" else "expert_parameters"
            for group in self.tables[group_kind]:
                members = group.tolist()
                if members[0] not in ranks or not self.names(members[0], unit, kind):
                    continue
                parts = [self.shards[rank, unit, kind] for rank in members]
                for rank, whole in zip(
                    members, self.wire.run(purpose, "all_gather", members, parts), strict=True
                ):
                    self.unflat(rank, unit, kind, whole)

    def free_unit(self, ranks, unit):
        """Give the parameters of a unit away."""
        for rank in ranks:
            for var in self.params[rank][unit].values():
                var.shape = var.data.shape
                var.data = None

    def around(self, ranks, unit, run):
        """Run a unit; shared parameters are gathered before it and given away after it, also on the way back."""
        if self.layout.sharding != "zero3":
            return run()
        self.gather_unit(ranks, unit)
        self.tape.steps.append(lambda: self.free_unit(ranks, unit))
        out = run()
        if self.layout.reshard:
            self.free_unit(ranks, unit)
            self.tape.steps.append(lambda: self.gather_unit(ranks, unit))
        return out

    def each(self, states, function):
        """Apply a function of rank and state on every rank."""
        return {rank: function(rank, x) for rank, x in states.items()}

    def layer(self, states, layer):
        """Run a layer on the states of the ranks of its stage."""

        def run():
            if self.layout.recompute == "full":
                return self.twice(states, layer)
            return self.once(states, layer)

        return self.around(list(states), layer, run)

    def once(self, states, layer):
        """Run a layer whose parameters are here."""
        tape, params = self.tape, self.params
        normed = self.each(states, lambda r, x: tape.norm(x, params[r][layer]["norm1"]))
        after = self.leave(self.attention(self.enter(normed), layer))
        middle = {r: tape.add(states[r], after[r]) for r in states}
        normed = self.each(middle, lambda r, x: tape.norm(x, params[r][layer]["norm2"]))
        if self.model.moe_layers[layer] and self.layout.ep > 1:
            after = self.experts(normed, layer)
        else:
            after = self.leave(self.feed_forward(self.enter(normed), layer))
        return {r: tape.add(middle[r], after[r]) for r in middle}

    def twice(self, states, layer):
        """Run a layer and keep only what goes in; the backward pass runs it again."""
        tape = self.tape
        self.tape = Tape()
        out = {rank: Var(y.data) for rank, y in self.once(states, layer).items()}
        self.tape = tape

        def back():
            self.tape = Tape()
            inputs = {rank: Var(x.data) for rank, x in states.items()}
            for rank, y in self.once(inputs, layer).items():
                y.grad += out[rank].grad
            self.tape.backward()
            self.tape = tape
            for rank, x in inputs.items():
                states[rank].grad += x.grad

        tape.steps.append(back)
        return out

    def attention(self, states, layer):
        """Run attention on states that have all tokens of a context rank."""
        tape, model, layout = self.tape, self.model, self.layout
        d = model.head_size

        def heads(name):
            def project(rank, x):
                y = tape.matmul(x, self.params[rank][layer][name])
                return tape.linear(
                    y, lambda a: a.reshape(len(a), -1, d), lambda a: a.reshape(len(a), -1)
                )

            return self.each(states, project)

        q, k, v = heads("wq"), heads("wk"), heads("wv")
        length = layout.length(model) // layout.cp
        everywhere = np.arange(layout.length(model))
        own = {rank: everywhere[self.place(rank)[2] * length :][:length] for rank in states}
        if layout.cp > 1 and layout.context == "ulysses":
            q, k, v = self.to_heads(q), self.to_heads(k), self.to_heads(v)
            out = {r: tape.attend(q[r], k[r], v[r], everywhere, everywhere) for r in states}
            out = self.to_tokens(out)
        else:
            both = {}
            for r in states:
                both[r] = self.pair(k[r], v[r])
            both = self.gather_context(both) if layout.cp > 1 else both
            out = {}
            for r in states:
                keys, values = self.unpair(both[r])
                out[r] = tape.attend(q[r], keys, values, own[r], everywhere[: len(keys.data)])
        flat = self.each(
            out,
            lambda r, x: tape.linear(
                x, lambda a: a.reshape(len(a), -1), lambda a: a.reshape(len(a), -1, d)
            ),
        )
        return self.each(flat, lambda r, x: tape.matmul(x, self.params[r][layer]["wo"]))

    def pair(self, k, v):
        """Put keys and values of each token side by side, (T, 2, heads, d)."""
        y = Var(np.stack([k.data, v.data], axis=1))

        def back():
            k.grad += y.grad[:, 0]
            v.grad += y.grad[:, 1]

        self.tape.steps.append(back)
        return y

    def unpair(self, both):
        """Take keys and values apart. They are read again on the way back."""
        k, v = Var(both.data[:, 0]), Var(both.data[:, 1])

        def back():
            both.grad[:, 0] += k.grad
            both.grad[:, 1] += v.grad

        self.tape.steps.append(back)
        return k, v

    def gather_context(self, states):
        """Collect keys and values of a sequence; for the backward pass they are collected again."""
        out = self.together("cp", states, "context", self.gathered, self.scattered)
        for group in self.tables["cp"]:
            if group[0] not in states:
                continue
            members = group.tolist()

            def again(members=members):
                whole = self.gathered("context", members, [states[r].data for r in members])
                for rank, array in zip(members, whole, strict=True):
                    assert np.array_equal(array, out[rank].data)
                    out[rank].data = array

            self.tape.steps.append(again)
        return out

    def to_heads(self, states):
        """Exchange tokens for heads: each context rank gets all tokens of its part of the heads."""
        n = self.layout.cp

        def split(a):  # (T, heads, d) -> (n, T, heads / n, d)
            return np.stack(np.split(a, n, axis=1))

        def join(a):
            return np.concatenate(list(a), axis=1)

        parts = self.each(states, lambda r, x: self.tape.linear(x, split, join))
        parts = self.together("cp", parts, "context", self.exchanged, self.exchanged)

        def lines(a):  # (n, T, heads / n, d) -> (n T, heads / n, d)
            return a.reshape(-1, *a.shape[2:])

        return self.each(
            parts, lambda r, x: self.tape.linear(x, lines, lambda a: a.reshape(n, -1, *a.shape[1:]))
        )

    def to_tokens(self, states):
        """Exchange heads for tokens, as `to_heads` did the other way."""
        n = self.layout.cp
        parts = self.each(
            states,
            lambda r, x: self.tape.linear(
                x, lambda a: a.reshape(n, -1, *a.shape[1:]), lambda a: a.reshape(-1, *a.shape[2:])
            ),
        )
        parts = self.together("cp", parts, "context", self.exchanged, self.exchanged)
        return self.each(
            parts,
            lambda r, x: self.tape.linear(
                x,
                lambda a: np.concatenate(list(a), axis=1),
                lambda a: np.stack(np.split(a, n, axis=1)),
            ),
        )

    def gated(self, x, unit, end=""):
        """Run the three matrices of a feed-forward part or of an expert."""
        up = self.tape.gate(
            self.tape.matmul(x, unit[f"gate{end}"]), self.tape.matmul(x, unit[f"up{end}"])
        )
        return self.tape.matmul(up, unit[f"down{end}"])

    def feed_forward(self, states, layer):
        """Run a dense feed-forward part, or experts that every rank has (or a part of each matrix of all)."""
        if not self.model.moe_layers[layer]:
            return self.each(states, lambda r, x: self.gated(x, self.params[r][layer]))
        out = {}
        for rank, x in states.items():
            chosen = self.choices(rank, len(x.data), layer)
            score = self.tape.matmul(x, self.params[rank][layer]["router"])
            results = []
            for e in range(self.model.experts):
                results.append(self.gated(x, self.params[rank][layer], f".{e}"))
            rows = self.stacked(results)
            picked = self.tape.rows(rows, (chosen, np.arange(len(x.data))[:, None]))
            out[rank] = self.tape.mix(picked, score, chosen)
        return out

    def stacked(self, results):
        """Put the results of all experts in one array, (experts, T, h)."""
        y = Var(np.stack([x.data for x in results]))

        def back():
            for x, grad in zip(results, y.grad, strict=True):
                x.grad += grad

        self.tape.steps.append(back)
        return y

    def choices(self, rank, tokens, layer):
        """Return the experts of each token, (T, k): all experts get equally many, so that the count is exact."""
        _, _, c, t = self.place(rank)
        length = self.layout.length(self.model) // self.layout.cp
        first = c * length
        if tokens < length:  # sequence parallelism
            first += t * tokens
        token = first + np.arange(tokens)
        apart = self.model.experts // self.model.experts_per_token
        chosen = token[:, None] + layer + apart * np.arange(self.model.experts_per_token)
        return chosen % self.model.experts

    def experts(self, states, layer):
        """Send tokens to their experts, run these, and bring the results back."""
        tape, model, layout = self.tape, self.model, self.layout
        per_rank = model.experts // layout.ep
        k = model.experts_per_token
        orders, scores, sent = {}, {}, {}
        for rank, x in states.items():
            chosen = self.choices(rank, len(x.data), layer)
            scores[rank] = tape.matmul(x, self.params[rank][layer]["router"])
            order = np.argsort(chosen.ravel(), kind="stable")  # by expert, which is by rank
            orders[rank] = (chosen, order)
            sent[rank] = tape.rows(x, order // k)
        arrived = self.together("ep", sent, "experts", self.exchanged, self.exchanged)
        arrived = self.together("etp", arrived, "experts", self.gathered, self.scattered)
        done = {}
        for rank, x in arrived.items():
            first = rank % layout.stage_ranks // layout.etp % layout.ep * per_rank
            # Rows come by sender, and of each sender by expert.
            count = len(x.data) // (layout.ep * layout.etp * per_rank)
            expert = np.tile(np.repeat(np.arange(per_rank), count), layout.ep * layout.etp)
            results = []
            where = []
            for e in range(per_rank):
                index = np.flatnonzero(expert == e)
                where.append(index)
                results.append(
                    self.gated(tape.rows(x, index), self.params[rank][layer], f".{first + e}")
                )
            joined = self.joined(results)
            done[rank] = tape.rows(joined, np.argsort(np.concatenate(where)))
        done = self.together("etp", done, "experts", self.scattered, self.gathered)
        back = self.together("ep", done, "experts", self.exchanged, self.exchanged)
        out = {}
        for rank, x in back.items():
            chosen, order = orders[rank]
            rows = tape.rows(x, np.argsort(order).reshape(chosen.shape))
            out[rank] = tape.mix(rows, scores[rank], chosen)
        return out

    def joined(self, results):
        """Put the results of several experts one after another."""
        y = Var(np.concatenate([x.data for x in results]))
        edges = np.cumsum([len(x.data) for x in results])[:-1]

        def back():
            for x, grad in zip(results, np.split(y.grad, edges), strict=True):
                x.grad += grad

        self.tape.steps.append(back)
        return y

    def embed(self, ranks, tokens):
        """Return the rows of the input table for the tokens of each rank; the rows are divided among ranks."""
        part = self.model.vocabulary // self.layout.tp

        def run():
            found = {}
            for rank in ranks:
                row = tokens[rank] - self.place(rank)[3] * part
                here = (row >= 0) & (row < part)
                table = self.params[rank]["input"]["table"]
                picked = self.tape.rows(table, np.where(here, row, 0))
                mask = here[:, None]
                found[rank] = self.tape.linear(
                    picked, lambda a, m=mask: a * m, lambda a, m=mask: a * m
                )
            return self.leave(found, "table")

        return self.around(ranks, "input", run)

    def loss(self, states, targets, total):
        """Put the gradient of the mean cross-entropy on the tape; the scores of a token are divided among ranks."""
        part = self.model.vocabulary // self.layout.tp
        ranks = list(states)

        def run():
            normed = self.each(
                states, lambda r, x: self.tape.norm(x, self.params[r]["output"]["norm"])
            )
            for rank, x in self.enter(normed, "table").items():
                self.scores[rank] = self.linear_transposed(x, self.params[rank]["output"]["table"])
            self.finish(ranks, targets, total, part)
            return {}

        self.scores = {}
        self.around(ranks, "output", run)

    def linear_transposed(self, x, table):
        """Multiply tokens by the rows of a table."""
        y = Var(x.data @ table.data.T)

        def back():
            x.grad += y.grad @ table.data
            table.grad += y.grad.T @ x.data

        self.tape.steps.append(back)
        return y

    def finish(self, ranks, targets, total, part):
        """Compute the loss from the scores; largest score, right score and sum are agreed on in fp32."""
        for group in self.tables["tp"]:
            members = group.tolist()
            if members[0] not in ranks:
                continue
            scores = [self.scores[r].data for r in members]
            own = [s.max(axis=1).astype(np.float32) for s in scores]
            # The largest of all ranks needs `maximum`; what is sent is that of a sum.
            self.wire.run("table", "all_reduce", members, own)
            top = np.max(own, axis=0).astype(float)
            exps = [np.exp(s - top[:, None]) for s in scores]
            rights = []
            sums = []
            for r, e, s in zip(members, exps, scores, strict=True):
                row = targets[r] - self.place(r)[3] * part
                here = (row >= 0) & (row < part)
                picked = np.take_along_axis(s, np.where(here, row, 0)[:, None], axis=1)[:, 0]
                rights.append((picked * here).astype(np.float32))
                sums.append(e.sum(axis=1).astype(np.float32) if len(members) > 1 else e.sum(axis=1))
                self.scores[r].hot = (np.flatnonzero(here), row[here])
            sums = self.wire.run("table", "all_reduce", members, sums)
            self.wire.run("table", "all_reduce", members, rights)
            for r, e, whole in zip(members, exps, sums, strict=True):
                grad = e / whole[:, None]
                if len(members) == 1:
                    self.mean_loss -= np.log(grad[self.scores[r].hot]).sum() / total
                grad[self.scores[r].hot] -= 1
                self.scores[r].grad += grad / total

    # ---- the step ------------------------------------------------------------------------------------------------

    def step(self, sequences):
        """Run one step on sequences (batch, length + 1): inputs and the tokens that follow them."""
        layout = self.layout
        self.shards = {}
        self.mean_loss = 0.0  # of one device
        self.split_parameters()
        length = layout.length(self.model)
        total = len(sequences) * length
        batch = sequences.reshape(layout.dp, layout.microbatches, layout.microbatch, length + 1)
        for m in range(layout.microbatches):
            self.microbatch(batch[:, m, 0], total)
            if layout.sharding in ("zero2", "zero3"):
                self.reduce_gradients()
        if layout.sharding in ("ddp", "zero1"):
            self.reduce_gradients()
        self.finish_gradients()
        self.update()

    def microbatch(self, sequences, total):
        """Run one micro-batch of each replica forward and back."""
        layout, model = self.layout, self.model
        length = layout.length(model) // layout.cp
        inputs, targets = {}, {}
        for rank in range(layout.ranks):
            _, d, c, _ = self.place(rank)
            own = sequences[d][c * length : (c + 1) * length + 1]
            inputs[rank], targets[rank] = own[:-1], own[1:]
        states = self.embed([r for r in range(layout.ranks) if self.place(r)[0] == 0], inputs)
        part, stage = 0, 0
        for layer in range(model.layers):
            wanted, new_stage = self.part_of[layer]
            if wanted != part:
                states = self.send_on(states, stage, new_stage)
                part, stage = wanted, new_stage
            states = self.layer(states, layer)
        self.loss(states, targets, total)
        self.tape.backward()

    def send_on(self, states, stage, new_stage):
        """Send states to the ranks of another stage, and their gradients back."""
        apart = (new_stage - stage) * self.layout.stage_ranks
        out = {}
        for rank, x in states.items():
            y = Var(self.wire.send("pipeline", rank, rank + apart, x.data))

            def back(rank=rank, x=x, y=y):
                x.grad += self.wire.send("pipeline", rank + apart, rank, y.grad)

            self.tape.steps.append(back)
            out[rank + apart] = y
        return out

    # ---- gradients and parameters --------------------------------------------------------------------------------

    def units(self):
        """Yield each rank, unit and kind of parameters that exist."""
        for rank in range(self.layout.ranks):
            for unit in self.params[rank]:
                for kind in ("dense", "expert"):
                    if self.names(rank, unit, kind):
                        yield rank, unit, kind

    def group(self, rank, kind, of):
        """Return the group of a rank: ``of`` is shard, replica or all; None unless the rank is its first."""
        names = {
            ("dense", "all"): "dp_cp",
            ("dense", "shard"): "shard",
            ("dense", "replica"): "replica",
            ("expert", "all"): "edp",
            ("expert", "shard"): "expert_shard",
            ("expert", "replica"): "expert_replica",
        }
        table = self.tables[names[kind, of]]
        row = table[np.flatnonzero((table == rank).any(axis=1))[0]].tolist()
        return row if row[0] == rank else None

    def split_parameters(self):
        """Give each rank its part of the parameters, if parameters are shared."""
        if self.layout.sharding != "zero3":
            return
        for rank, unit, kind in list(self.units()):
            members = self.group(rank, kind, "shard")
            if members is None:
                continue
            for member, part in zip(
                members, np.split(self.flat(rank, unit, kind, "data"), len(members)), strict=True
            ):
                self.shards[member, unit, kind] = part.copy()
        for rank in range(self.layout.ranks):
            for unit in self.params[rank]:
                self.free_unit([rank], unit)

    def reduce_gradients(self):
        """Sum the gradients of all ranks that hold the same parameters, or of those that share them."""
        self.sum_norms()
        whole = self.layout.sharding == "ddp"
        self.sum_tied()
        for rank, unit, kind in self.units():
            members = self.group(rank, kind, "all" if whole else "shard")
            if members is None:
                continue
            purpose = "gradients" if kind == "dense" else "expert_gradients"
            grads = [self.flat(r, unit, kind, "grad") for r in members]
            operation = "all_reduce" if whole else "reduce_scatter"
            for member, part in zip(
                members, self.wire.run(purpose, operation, members, grads), strict=True
            ):
                self.gradients[member, unit, kind] = (
                    self.gradients.get((member, unit, kind), 0) + part
                )
        for rank in range(self.layout.ranks):
            for unit in self.params[rank].values():
                for var in unit.values():
                    var.grad[...] = 0

    def sum_norms(self):
        """Sum the gradients of norms and routers of which each tensor-parallel rank saw a part of the tokens."""
        if not self.layout.sequence_parallel:
            return
        for group in self.tables["tp"].tolist():
            for unit in self.params[group[0]]:
                for name in self.params[group[0]][unit]:
                    if name in _WHOLE:
                        variables = [self.params[r][unit][name] for r in group]
                        for var, grad in zip(
                            variables,
                            self.summed("not counted", group, [v.grad for v in variables]),
                            strict=True,
                        ):
                            var.grad[...] = grad

    def sum_tied(self):
        """Sum the gradients of the table that the first and the last stage have."""
        if not (self.model.tied and self.layout.pp > 1):
            return
        for group in self.layout.groups("table").tolist():
            first, last = (
                self.params[group[0]]["input"]["table"],
                self.params[group[1]]["output"]["table"],
            )
            for var, grad in zip(
                (first, last),
                self.summed("tied_table", group, [first.grad, last.grad]),
                strict=True,
            ):
                var.grad[...] = grad

    def finish_gradients(self):
        """Sum the parts of the gradients between groups that share (hybrid sharding)."""
        if self.layout.sharding == "ddp":
            return
        for rank, unit, kind in self.units():
            members = self.group(rank, kind, "replica")
            if members is None or len(members) == 1:
                continue
            purpose = "gradients" if kind == "dense" else "expert_gradients"
            parts = [self.gradients[r, unit, kind] for r in members]
            for member, part in zip(
                members, self.wire.run(purpose, "all_reduce", members, parts), strict=True
            ):
                self.gradients[member, unit, kind] = part

    def update(self):
        """Go down the gradient: each rank its part of the parameters, which it then sends to the others."""
        sharding = self.layout.sharding
        for rank, unit, kind in self.units():
            if sharding == "zero3":
                self.shards[rank, unit, kind] -= RATE * self.gradients[rank, unit, kind]
            elif sharding == "ddp":
                data = self.flat(rank, unit, kind, "data") - RATE * self.gradients[rank, unit, kind]
                self.unflat(rank, unit, kind, data)
            else:
                members = self.group(rank, kind, "shard")
                if members is None:
                    continue
                parts = []
                for place, r in enumerate(members):
                    part = np.split(self.flat(r, unit, kind, "data"), len(members))[place]
                    parts.append(part - RATE * self.gradients[r, unit, kind])
                purpose = "parameters" if kind == "dense" else "expert_parameters"
                for r, data in zip(
                    members, self.wire.run(purpose, "all_gather", members, parts), strict=True
                ):
                    self.unflat(r, unit, kind, data)
        if sharding == "zero3":
            counted = self.wire
            self.wire = Wire(self.layout.ranks)  # looking at the result is no part of the step
            everybody = range(self.layout.ranks)
            for stage in range(self.layout.pp):
                for unit in self.units_of(stage):
                    ranks = [rank for rank in everybody if self.place(rank)[0] == stage]
                    self.gather_unit(ranks, unit)
            self.wire = counted

    def part(self, rank, name, array):
        """Return the part of an array of the whole model that a rank has."""
        if "." in name:
            return slice_of(
                name, array, rank % self.layout.stage_ranks % self.layout.etp, self.layout.etp
            )
        return slice_of(name, array, self.place(rank)[3], self.layout.tp)

    def gradient_of(self, rank):
        """Return the gradient of each parameter of a rank, from what the step changed, by unit and name."""
        found = {}
        for unit, variables in self.params[rank].items():
            for name, var in variables.items():
                tied = unit == "output" and name == "table" and self.model.tied
                before = self.old["input" if tied else unit][name]
                found[unit, name] = (self.part(rank, name, before) - var.data) / RATE
        return found


def exact(bytes_each=8.0, **options):
    """Return a layout whose numbers all have 8 bytes, as those of the step have."""
    given = dict.fromkeys(
        ("weight_bytes", "gradient_bytes", "activation_bytes", "optimiser_bytes"), bytes_each
    )
    return Layout(**given, **options)
