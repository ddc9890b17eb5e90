"""Network attachments of Kubernetes: what a NetworkAttachmentDefinition says, what it lacks, and on which line.

Multus gives a pod further networks beside that of the cluster. Each is a NetworkAttachmentDefinition: its annotation
``k8s.v1.cni.cncf.io/resourceName`` names the resource of the device plugin that hands out virtual functions, and its
``spec.config`` is the JSON that a CNI plug-in reads.

References
----------
.. [1] Kubernetes Network Custom Resource Definition De-facto Standard, version 1.3.
.. [2] k8snetworkplumbingwg: sriov-network-device-plugin, sriov-cni, ib-sriov-cni, rdma-cni (their docs, seen
   2026-11-29).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fabriclab.operations.yaml_nodes import Node

__all__ = ["Attachment", "Finding", "read_attachment"]

GROUP = "k8s.v1.cni.cncf.io"
NETWORKS = f"{GROUP}/networks"
RESOURCE = f"{GROUP}/resourceName"
_VERSION = "k8s.cni.cncf.io/v1"
# CNI plug-ins that move a device into the pod, so that a device plugin has to hand one out; and those that share one.
OWN_DEVICE = ("sriov", "ib-sriov", "host-device")
SHARED_DEVICE = ("macvlan", "ipvlan", "ipoib")
_LINK_STATES = ("auto", "enable", "disable")

MISSING = "missing"  # without it the pod has no RDMA
WRONG = "wrong"  # it contradicts something else in the text
CHECK = "check"  # it works without, but slower, or only on some sites
_GRADES = (MISSING, WRONG, CHECK)


class Finding(NamedTuple):
    """Something that is missing or wrong in a manifest.

    Parameters
    ----------
    line : int
        Line on which it is, or below which it belongs.
    grade : str
        ``"missing"``, ``"wrong"`` or ``"check"``; the last one does not keep RDMA from working.
    where : str
        Object and key.
    what, fix : str
        What is the matter, and what to write.
    """

    line: int
    grade: str
    where: str
    what: str
    fix: str

    def __str__(self) -> str:
        """Return it as one line."""
        return f"line {self.line}, {self.grade}: {self.where}: {self.what}; {self.fix}"


def by_gravity(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings with the gravest first, those of one grade by line."""
    return tuple(sorted(findings, key=lambda f: (_GRADES.index(f.grade), f.line)))


@dataclass(frozen=True)
class Attachment:
    """A network that pods can be attached to.

    Parameters
    ----------
    name, namespace : str
        What pods call it.
    line : int
        Line on which it begins.
    plugins : tuple of str
        Types of its CNI plug-ins, in their order.
    resource : str
        Resource that a container has to ask for; empty if none is named.
    """

    name: str
    namespace: str
    line: int
    plugins: tuple[str, ...]
    resource: str

    @property
    def has_device(self) -> bool:
        """Whether a device moves into the pod."""
        return any(plugin in OWN_DEVICE for plugin in self.plugins)


def misspelt(keys: Mapping[str, Node], wanted: str) -> Node | None:
    """Return the node of an annotation that looks like a wanted one and is not; None if there is none."""
    close = difflib.get_close_matches(
        wanted, [key for key in keys if key != wanted], n=1, cutoff=0.85
    )
    return keys[close[0]] if close else None


def line_of(document: Node, *path: str) -> int:
    """Return the line of the innermost of some keys that is there."""
    node = document
    for key in path:
        inner = node.keys.get(key)
        if inner is None:
            break
        node = inner
    return node.line


def read_attachment(document: Node) -> tuple[Attachment, list[Finding]]:
    """Return a NetworkAttachmentDefinition, and what is missing or wrong in it."""
    name = document.string("metadata", "name")
    where = f"NetworkAttachmentDefinition {name or '(no name)'}"
    findings: list[Finding] = []

    def note(line: int, grade: str, key: str, what: str, fix: str) -> None:
        findings.append(Finding(line, grade, f"{where}, {key}", what, fix))

    if not name:
        line = line_of(document, "metadata")
        note(line, MISSING, "metadata.name", "no pod can ask for it", "add name: and a name")
    version = document.string("apiVersion")
    if version != _VERSION:
        line = line_of(document, "apiVersion")
        note(
            line, WRONG, "apiVersion", f"got {version or 'none'}", f'write apiVersion: "{_VERSION}"'
        )

    config, config_findings = _config(document, where)
    findings += config_findings
    plugins = _plugins(config)
    resource = document.string("metadata", "annotations", RESOURCE)
    if not resource and any(plugin in OWN_DEVICE for plugin in plugins):
        annotations = document.get("metadata", "annotations")
        wrong = misspelt(annotations.keys, RESOURCE) if annotations else None
        line = wrong.line if wrong else line_of(document, "metadata", "annotations")
        what = "nothing says which devices it hands out"
        if wrong:
            what = "its name is misspelt, so nothing says which devices it hands out"
        fix = f"write {RESOURCE}: and the name of the device plugin's resource"
        note(line, MISSING, f"annotation {RESOURCE}", what, fix)
    findings += _ethernet_or_infiniband(config, plugins, document, where)

    namespace = document.string("metadata", "namespace") or "default"
    return Attachment(name, namespace, document.line, plugins, resource), findings


def _config(document: Node, where: str) -> tuple[dict[str, Any], list[Finding]]:
    """Return ``spec.config`` as it was read from JSON, empty if it cannot be, and why not."""
    node = document.get("spec", "config")
    key = f"{where}, spec.config"
    if node is None or not isinstance(node.value, str) or not node.value.strip():
        line = node.line if node else line_of(document, "spec")
        what = "no CNI plug-in is configured"
        return {}, [Finding(line, MISSING, key, what, "write config: and the JSON of a plug-in")]
    try:
        config = json.loads(node.value)
    except json.JSONDecodeError as error:
        # A literal block keeps its lines, the first of them below its key; a quoted text has lost them.
        line = node.line
        if node.keeps_lines:
            line += min(error.lineno, len(node.value.rstrip().splitlines()))
        near = node.value[max(0, error.pos - 12) : error.pos + 12].replace("\n", " ")
        what = f"it is no JSON near {near!r}: {error.msg}"
        return {}, [
            Finding(
                line,
                WRONG,
                key,
                what,
                "correct it; JSON wants double quotes, and no comma at the end",
            )
        ]
    except RecursionError:
        return {}, [
            Finding(node.line, WRONG, key, "its brackets are nested too deep", "write it plainly")
        ]
    if not isinstance(config, dict):
        return {}, [
            Finding(node.line, WRONG, key, "it must be an object", "write it in braces {...}")
        ]
    if not _plugins(config):
        what = "it names no type of plug-in"
        return config, [
            Finding(
                node.line, MISSING, key, what, 'add "type": "sriov" (or "ib-sriov" on InfiniBand)'
            )
        ]
    return config, []


def _plugins(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the types of the plug-ins of a configuration, which has one or a list of them."""
    listed = config.get("plugins")
    each = listed if isinstance(listed, list) else [config]
    types = [entry.get("type") for entry in each if isinstance(entry, dict)]
    return tuple(kind for kind in types if isinstance(kind, str))


def _ethernet_or_infiniband(
    config: Mapping[str, Any], plugins: tuple[str, ...], document: Node, where: str
) -> list[Finding]:
    """Return what does not fit the kind of network that the plug-in is for."""
    line = line_of(document, "spec", "config")
    key = f"{where}, spec.config"
    findings = []
    if plugins and not any(kind in (*OWN_DEVICE, *SHARED_DEVICE) for kind in plugins):
        what = f"of its plug-ins {', '.join(plugins)} none is known to give a device or a network for RDMA"
        known = ", ".join((*OWN_DEVICE, *SHARED_DEVICE))
        findings.append(Finding(line, CHECK, key, what, f"known are {known}"))
    if "ib-sriov" in plugins and "vlan" in config:
        what = "InfiniBand has no VLANs"
        findings.append(
            Finding(line, WRONG, key, what, 'separate tenants by "pkey": "0x..." instead')
        )
    if "sriov" in plugins and "pkey" in config:
        what = "Ethernet has no partition keys"
        findings.append(
            Finding(
                line, WRONG, key, what, 'write "vlan": and a number, or take "type": "ib-sriov"'
            )
        )
    state = config.get("link_state")
    if state is not None and state not in _LINK_STATES:
        what = f"link_state must be one of {', '.join(_LINK_STATES)}, got {state!r:.40}"
        findings.append(Finding(line, WRONG, key, what, 'write "link_state": "enable"'))
    if "sriov" in plugins and "ipam" not in config and not isinstance(config.get("plugins"), list):
        what = "no ipam, so the interface gets no address, and RoCE v2 has no GID to send from"
        findings.append(
            Finding(line, CHECK, key, what, 'add "ipam": unless addresses come from elsewhere')
        )
    return findings
