"""RDMA in Kubernetes: read a pod and its network attachment, and say what is missing for RDMA, and on which line.

A pod has three ways to an RDMA device [1]_. With SR-IOV it gets a virtual function of its own: Multus attaches a second
network, a device plugin hands out the function, and tenants are kept apart. A shared device plugin lets several pods
use one device. Host networking gives a pod all networks of its server, and it still asks for a device. Each way has its
own lines in the manifest. What happens if one is missing differs: without the annotation a pod starts and sends over
TCP, without the device of its network it does not start [2]_, and without the right to pin memory it ends [3]_.

References
----------
.. [1] k8snetworkplumbingwg/sriov-network-device-plugin and Mellanox/k8s-rdma-shared-dev-plugin, their docs and
   examples, seen 2026-11-29.
.. [2] k8snetworkplumbingwg/sriov-network-device-plugin, issues 258 and 490: "VF pci addr is required".
.. [3] NVIDIA/nccl-tests, issue 206: ibv_reg_mr fails where `ulimit -l` is 8192.

Examples
--------
>>> report = check_manifests(example_manifest())
>>> report.ok, report.ways
(True, ('SR-IOV',))
>>> broken = example_manifest().replace('add: ["IPC_LOCK"]', "add: []")
>>> print(check_manifests(broken).findings[0])
line 37, missing: Pod trainer, container worker: the capability IPC_LOCK; add it, or memory cannot be pinned
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from fabriclab.core import as_html, as_text
from fabriclab.errors import FileFormat
from fabriclab.importers import text_lines
from fabriclab.operations.attachments import (
    CHECK,
    Attachment,
    Finding,
    by_gravity,
    read_attachment,
)
from fabriclab.operations.pods import OVERLAY, Pod, check_pod
from fabriclab.operations.readings import Skipped, skipped_lines
from fabriclab.operations.yaml_nodes import Node, read_documents

__all__ = ["ManifestReport", "check_manifests", "example_manifest"]

_WORKLOADS = ("Deployment", "Job", "StatefulSet", "DaemonSet", "ReplicaSet")


def example_manifest() -> str:
    """Return a pod with one GPU and a virtual function of its own on InfiniBand, and its network attachment."""
    return Path(__file__).with_name("rdma_pod.yaml").read_text(encoding="utf-8")


@dataclass(frozen=True)
class ManifestReport:
    """What manifests say about RDMA: what is missing or wrong, what was skipped, and what was not looked at.

    Parameters
    ----------
    findings : tuple of Finding
        The gravest first.
    pods : tuple of str
        Names of the pods, or of what makes them.
    ways : tuple of str
        How each pod gets to RDMA: ``"SR-IOV"``, ``"shared device"``, ``"host networking"`` or ``"no RDMA"``.
    attachments : tuple of Attachment
        Networks that the text defines.
    skipped : tuple of Skipped
        Lines that are not understood.
    ignored : tuple of str
        Objects of other kinds, with their lines.
    """

    findings: tuple[Finding, ...]
    pods: tuple[str, ...]
    ways: tuple[str, ...]
    attachments: tuple[Attachment, ...]
    skipped: tuple[Skipped, ...]
    ignored: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether every pod has RDMA: nothing is missing or wrong, and every line was understood."""
        grave = [f for f in self.findings if f.grade != CHECK]
        return not grave and not self.skipped and OVERLAY not in self.ways

    def rows(self) -> list[list[str]]:
        """Return a table of texts, a row for each finding."""
        table = [["line", "grade", "where", "what", "fix"]]
        for f in self.findings:
            table.append([str(f.line), f.grade, f.where, f.what, f.fix])
        return table

    def __str__(self) -> str:
        """Return what was understood and what was skipped."""
        lines = [f"{pod}: {way}" for pod, way in zip(self.pods, self.ways, strict=True)]
        lines += [
            f"network {a.name}: {', '.join(a.plugins) or 'no plug-in'}" for a in self.attachments
        ]
        lines += [f"  not looked at: {each}" for each in self.ignored]
        lines += skipped_lines(self.skipped)
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Show what was understood, then the findings."""
        if not self.findings:
            return f"{self}\nnothing is missing"
        return f"{self}\n{as_text(self.rows())}"

    def _repr_html_(self) -> str:
        return as_html(self.rows(), str(self))


def check_manifests(source: str | os.PathLike[str]) -> ManifestReport:
    """Check the pods and network attachments of a text for RDMA, and say what is missing, and on which line.

    Looked at are pods, what makes them (a Deployment, Job, StatefulSet, DaemonSet or ReplicaSet), and
    NetworkAttachmentDefinitions. Leaves out the device plugin's own configuration and everything that only a cluster
    knows, such as whether a node has such a device.

    Parameters
    ----------
    source : path or str
        A file, or its text; documents are separated by ``---``.

    Raises
    ------
    FileFormat
        If the text holds no pod and no network attachment.
    """
    documents, skipped = read_documents(text_lines(source))
    attachments = []
    findings: list[Finding] = []
    pods = []
    ignored = []
    for document in documents:
        kind = document.string("kind")
        if kind == "NetworkAttachmentDefinition":
            attachment, more = read_attachment(document)
            attachments.append(attachment)
            findings += more
        elif kind == "Pod":
            pods.append(Pod(document, document, kind))
        elif kind in _WORKLOADS:
            template = document.get("spec", "template") or Node(document.line)
            pods.append(Pod(document, template, kind))
        else:
            ignored.append(f"{kind or 'a document without kind'} on line {document.line}")
    if not pods and not attachments:
        what = "; ".join(map(str, [*ignored, *skipped][:3])) or "it is empty"
        raise FileFormat(
            f"the text must hold a Pod or a NetworkAttachmentDefinition, got {what}; write kind: Pod"
        )

    ways = []
    for pod in pods:
        way, more = check_pod(pod, attachments)
        ways.append(way)
        findings += more
    return ManifestReport(
        findings=by_gravity(findings),
        pods=tuple(pod.label for pod in pods),
        ways=tuple(ways),
        attachments=tuple(attachments),
        skipped=tuple(skipped),
        ignored=tuple(ignored),
    )
