"""What a pod of Kubernetes needs for RDMA: its networks, their devices, memory that may be pinned."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from fabriclab import units
from fabriclab.operations.attachments import (
    CHECK,
    MISSING,
    NETWORKS,
    WRONG,
    Attachment,
    Finding,
    line_of,
    misspelt,
)
from fabriclab.operations.yaml_nodes import Node

__all__ = ["OVERLAY", "Pod", "check_pod"]

SRIOV = "SR-IOV"
SHARED = "shared device"
HOST = "host networking"
OVERLAY = "no RDMA"
_GPU = "nvidia.com/gpu"
_PLAIN = ("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "hugepages-1Gi")  # no devices


class Pod(NamedTuple):
    """A pod: the object that makes it, and the part of it that has the pod's metadata and spec."""

    owner: Node
    template: Node
    kind: str

    @property
    def label(self) -> str:
        """Kind and name."""
        metadata = self.owner.get("metadata")
        name = ""
        if metadata is not None:
            name = metadata.string("name") or metadata.string("generateName")
        return f"{self.kind} {name or '(no name)'}"

    @property
    def namespace(self) -> str:
        """Namespace in which its networks are looked for."""
        return self.owner.string("metadata", "namespace") or "default"

    @property
    def containers(self) -> list[Node]:
        """Containers of the pod."""
        node = self.template.get("spec", "containers")
        return node.items if node is not None else []

    @property
    def on_host(self) -> bool:
        """Whether it uses the network of its server."""
        node = self.template.get("spec", "hostNetwork")
        return node is not None and node.value is True


class _Network(NamedTuple):
    """A network that a pod asks for."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Return it as Multus writes it."""
        return f"{self.namespace}/{self.name}"


def check_pod(pod: Pod, attachments: list[Attachment]) -> tuple[str, list[Finding]]:
    """Return how a pod gets to RDMA, and what is missing."""
    if not pod.containers:
        line = line_of(pod.template, "spec", "containers")
        return OVERLAY, [
            Finding(line, MISSING, pod.label, "it has no containers", "add spec.containers")
        ]
    networks, findings = _networks(pod)
    asked, more = _resources(pod)
    findings += more
    by_name = {_Network(a.namespace, a.name): a for a in attachments}
    used = [by_name[network] for network in networks if network in by_name]
    findings += _unknown_networks(pod, networks, by_name)
    findings += _devices(pod, used, asked)
    devices = {name for name in asked if name not in (*_PLAIN, _GPU)}

    if pod.on_host:
        way = HOST
        findings += _on_host(pod, networks, devices)
    elif used or networks:
        way = SRIOV if any(a.has_device for a in used) or not used else SHARED
    elif devices:
        owner = [a for a in attachments if a.resource in devices]
        way = SRIOV if owner else SHARED
        if owner and not findings:
            findings.append(_missing_annotation(pod, owner[0]))
    else:
        way = OVERLAY
        what = (
            "neither a second network, nor an RDMA device, nor host networking: it sends over TCP"
        )
        fix = f"add the annotation {NETWORKS} and the resource of its devices"
        if not findings:
            findings.append(
                Finding(line_of(pod.template, "metadata"), MISSING, pod.label, what, fix)
            )
    if way != OVERLAY:
        findings += _pinning(pod, devices)
    findings += _comfort(pod, networks, asked)
    return way, findings


def _missing_annotation(pod: Pod, attachment: Attachment) -> Finding:
    """Return the finding for a pod that asks for a device, but not for its network."""
    line = line_of(pod.template, "metadata", "annotations")
    what = f"it asks for {attachment.resource}, but not for the network {attachment.name} that brings the device in"
    return Finding(line, MISSING, pod.label, what, f"add {NETWORKS}: {attachment.name}")


def _networks(pod: Pod) -> tuple[list[_Network], list[Finding]]:
    """Return the networks that the annotation of Multus names."""
    annotations = pod.template.get("metadata", "annotations")
    if annotations is None:
        return [], []
    node = annotations.get(NETWORKS)
    if node is None:
        wrong = misspelt(annotations.keys, NETWORKS)
        if wrong is None:
            return [], []
        what = "an annotation looks like that of Multus and is not, so nobody reads it"
        return [], [Finding(wrong.line, MISSING, pod.label, what, f"write {NETWORKS}:")]
    text = str(node.value or "").strip()
    where = f"{pod.label}, annotation {NETWORKS}"
    if not text:
        return [], [Finding(node.line, MISSING, where, "it is empty", "name a network attachment")]
    if not text.startswith("["):
        return [_named(part, pod.namespace) for part in text.split(",") if part.strip()], []
    try:
        entries = json.loads(text)
        found = [_Network(str(e.get("namespace", pod.namespace)), str(e["name"])) for e in entries]
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        what = "it is no JSON list of objects with a name"
        return [], [
            Finding(node.line, WRONG, where, what, 'write \'[{"name": "rail-0"}]\', or rail-0')
        ]
    return found, []


def _named(part: str, namespace: str) -> _Network:
    """Return a network from ``namespace/name@interface``, of which only the name has to be there."""
    path, _, _ = part.strip().partition("@")
    space, slash, name = path.partition("/")
    return _Network(space, name) if slash else _Network(namespace, space)


def _unknown_networks(
    pod: Pod, networks: list[_Network], known: Mapping[_Network, Attachment]
) -> list[Finding]:
    """Return a finding for each network that the text does not define."""
    findings = []
    line = line_of(pod.template, "metadata", "annotations", NETWORKS)
    for network in dict.fromkeys(networks):
        if network in known:
            continue
        elsewhere = [k for k in known if k.name == network.name]
        what = f"the network {network} is not defined here"
        if elsewhere:
            home = elsewhere[0].namespace
            what = f"the network {network.name} is in namespace {home}, the pod looks in {network.namespace}"
        grade = WRONG if known else CHECK
        names = ", ".join(map(str, known)) or "none"
        fix = (
            f"defined are {names}"
            if known
            else "check it with kubectl get network-attachment-definitions"
        )
        findings.append(Finding(line, grade, f"{pod.label}, annotation {NETWORKS}", what, fix))
    return findings


def _resources(pod: Pod) -> tuple[dict[str, int], list[Finding]]:
    """Return how many of each resource all containers ask for together, by their limits."""
    asked: Counter[str] = Counter()
    findings = []
    for container in pod.containers:
        where = f"{pod.label}, container {container.string('name') or '(no name)'}"
        limits = container.get("resources", "limits") or Node(container.line)
        requests = container.get("resources", "requests") or Node(container.line)
        for name, node in {**requests.keys, **limits.keys}.items():
            if name in _PLAIN:
                continue
            if not units.is_number(node.value) or not isinstance(node.value, int) or node.value < 0:
                what = f"{name} must be a whole number, got {node.text or node.value!r}"
                findings.append(Finding(node.line, WRONG, where, what, f"write {name}: 1"))
                continue
            asked[name] += node.value
            other = requests.keys.get(name)
            if name not in limits.keys:
                what = f"{name} is in requests and not in limits"
                findings.append(
                    Finding(
                        node.line,
                        MISSING,
                        where,
                        what,
                        f"write {name}: {node.value} under limits, too",
                    )
                )
            elif other is not None and other.value != node.value:
                what = f"{name} is {other.value!r} in requests and {node.value!r} in limits"
                findings.append(
                    Finding(
                        other.line,
                        WRONG,
                        where,
                        what,
                        "a device cannot be overcommitted; make both equal",
                    )
                )
    return dict(asked), findings


def _devices(pod: Pod, used: list[Attachment], asked: Mapping[str, int]) -> list[Finding]:
    """Return where the devices that networks need and those that containers ask for differ."""
    findings = []
    wanted = Counter(a.resource for a in used if a.resource)
    first = pod.containers[0]
    line = line_of(first, "resources", "limits")
    where = f"{pod.label}, container {first.string('name') or '(no name)'}"
    for resource, number in wanted.items():
        got = asked.get(resource, 0)
        name = next(a.name for a in used if a.resource == resource)
        if got == 0:
            what = f"the network {name} needs a device of {resource}, and no container asks for one"
            findings.append(
                Finding(
                    line, MISSING, where, what, f"add {resource}: {number} to limits and requests"
                )
            )
        elif got < number:
            what = f"{number} networks need devices of {resource}, and containers ask for {got}"
            findings.append(Finding(line, WRONG, where, what, f"write {resource}: {number}"))
        elif got > number:
            what = f"{got} devices of {resource}, but only {number} of them come with a network"
            findings.append(Finding(line, CHECK, where, what, f"name {name} once for each device"))
    return findings


def _on_host(pod: Pod, networks: list[_Network], devices: set[str]) -> list[Finding]:
    """Return what does not fit host networking."""
    line = line_of(pod.template, "spec", "hostNetwork")
    findings = []
    if networks:
        what = "hostNetwork: true, so Multus attaches no network"
        findings.append(
            Finding(
                line, WRONG, pod.label, what, f"remove hostNetwork, or the annotation {NETWORKS}"
            )
        )
    if not devices and not any(_privileged(c) for c in pod.containers):
        what = "it sees the network of its server, but may not open /dev/infiniband"
        findings.append(
            Finding(
                line,
                MISSING,
                pod.label,
                what,
                "ask for a shared device such as rdma/hca_shared_devices_a",
            )
        )
    if pod.template.string("spec", "dnsPolicy") != "ClusterFirstWithHostNet":
        what = "names of the cluster are not found from the network of the server"
        findings.append(
            Finding(line, CHECK, pod.label, what, "add dnsPolicy: ClusterFirstWithHostNet")
        )
    return findings


def _privileged(container: Node) -> bool:
    """Return whether a container may do anything."""
    node = container.get("securityContext", "privileged")
    return node is not None and node.value is True


def _pinning(pod: Pod, devices: set[str]) -> list[Finding]:
    """Return the containers that use RDMA and may not pin memory."""
    findings = []
    for container in pod.containers:
        limits = container.get("resources", "limits") or Node(container.line)
        uses = devices.intersection(limits.keys) or len(pod.containers) == 1
        added = container.get("securityContext", "capabilities", "add")
        names = [node.value for node in added.items] if added is not None else []
        if not uses or _privileged(container) or {"IPC_LOCK", "ALL"}.intersection(map(str, names)):
            continue
        line = line_of(container, "securityContext", "capabilities", "add")
        where = f"{pod.label}, container {container.string('name') or '(no name)'}"
        fix = "add it, or memory cannot be pinned"
        findings.append(Finding(line, MISSING, where, "the capability IPC_LOCK", fix))
    return findings


def _comfort(pod: Pod, networks: list[_Network], asked: Mapping[str, int]) -> list[Finding]:
    """Return what makes a job slow although RDMA works: too little shared memory, fewer NICs than GPUs."""
    findings = []
    gpus = asked.get(_GPU, 0)
    mounts = [m for c in pod.containers for m in (c.get("volumeMounts") or Node(c.line)).items]
    has_shm = any(mount.string("mountPath") == "/dev/shm" for mount in mounts)
    line = pod.containers[0].line
    if gpus > 1 and not has_shm:
        # source: Docker's default size of /dev/shm, 64 MiB (docker run --shm-size)
        what = f"{gpus} GPUs share /dev/shm of 64 MiB, which NCCL fills"
        findings.append(
            Finding(line, CHECK, pod.label, what, "mount an emptyDir with medium: Memory there")
        )
    if networks and gpus > len(networks):
        what = f"{gpus} GPUs, but {len(networks)} networks: GPUs share NICs"
        findings.append(
            Finding(line, CHECK, pod.label, what, "attach one network for each GPU's rail")
        )
    return findings
