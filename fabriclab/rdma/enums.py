"""The enumerations of the verbs, under the names and with the values that pyverbs 44.0 has for them.

Every member is also a name of this module: ``enums.IBV_QPS_RTS``. What this device does not do is left out.
"""
# ruff: noqa: N801

from enum import IntEnum


class ibv_qp_state(IntEnum):
    """Where a queue pair stands."""

    IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_SQE, IBV_QPS_ERR = range(7)


class ibv_qp_type(IntEnum):
    """Reliable connection, unreliable connection, unreliable datagram."""

    IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD = 2, 3, 4


class ibv_access_flags(IntEnum):
    """What a memory region lets others do."""

    IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_ATOMIC = 1, 2, 4, 8
    IBV_ACCESS_RELAXED_ORDERING = 1 << 20


class ibv_wr_opcode(IntEnum):
    """What a work request asks for."""

    IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_READ = range(5)
    IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD = 5, 6


class ibv_send_flags(IntEnum):
    """How a work request is done."""

    IBV_SEND_FENCE, IBV_SEND_SIGNALED, IBV_SEND_SOLICITED, IBV_SEND_INLINE = 1, 2, 4, 8


class ibv_wc_status(IntEnum):
    """How a work request ended."""

    IBV_WC_SUCCESS, IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_QP_OP_ERR, IBV_WC_LOC_EEC_OP_ERR = range(4)
    IBV_WC_LOC_PROT_ERR, IBV_WC_WR_FLUSH_ERR, IBV_WC_MW_BIND_ERR, IBV_WC_BAD_RESP_ERR = range(4, 8)
    IBV_WC_LOC_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_OP_ERR = range(8, 12)
    IBV_WC_RETRY_EXC_ERR, IBV_WC_RNR_RETRY_EXC_ERR = 12, 13
    IBV_WC_REM_ABORT_ERR, IBV_WC_FATAL_ERR, IBV_WC_RESP_TIMEOUT_ERR, IBV_WC_GENERAL_ERR = 16, 19, 20, 21


class ibv_wc_opcode(IntEnum):
    """What a completion tells of."""

    IBV_WC_SEND, IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ, IBV_WC_COMP_SWAP, IBV_WC_FETCH_ADD = range(5)
    IBV_WC_RECV, IBV_WC_RECV_RDMA_WITH_IMM = 128, 129


class ibv_wc_flags(IntEnum):
    """What else a completion carries."""

    IBV_WC_GRH, IBV_WC_WITH_IMM = 1, 2


class ibv_mtu(IntEnum):
    """Payload of a packet."""

    IBV_MTU_256, IBV_MTU_512, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096 = range(1, 6)


class ibv_qp_attr_mask(IntEnum):
    """Which attributes a change of a queue pair gives."""

    IBV_QP_STATE, IBV_QP_CUR_STATE = 1, 2
    IBV_QP_ACCESS_FLAGS, IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_QKEY = 1 << 3, 1 << 4, 1 << 5, 1 << 6
    IBV_QP_AV, IBV_QP_PATH_MTU, IBV_QP_TIMEOUT, IBV_QP_RETRY_CNT = 1 << 7, 1 << 8, 1 << 9, 1 << 10
    IBV_QP_RNR_RETRY, IBV_QP_RQ_PSN, IBV_QP_MAX_QP_RD_ATOMIC = 1 << 11, 1 << 12, 1 << 13
    IBV_QP_MIN_RNR_TIMER, IBV_QP_SQ_PSN, IBV_QP_MAX_DEST_RD_ATOMIC = 1 << 15, 1 << 16, 1 << 17
    IBV_QP_DEST_QPN = 1 << 20


def __getattr__(name: str) -> IntEnum:
    """Say which names there are; those that exist never come here."""
    raise AttributeError(f"fabriclab.rdma.enums has no {name!r}; the device knows {', '.join(sorted(_FLAT))}")


_FLAT = {k: m for e in list(vars().values()) if isinstance(e, type) for k, m in getattr(e, "__members__", {}).items()}
globals().update(_FLAT)
