"""Milliseconds of a forward pass on the GPU, where there is one."""

from __future__ import annotations

import copy
import statistics

import torch
from torch import Tensor, nn

from nrs.paper.trial import device
from nrs.training.processes import find_device

NOTE = "not measured: there was no GPU; with one, nrs paper run measures it"
_WARM_UP, _TURNS = 10, 50


def gpu_ms(network: nn.Module, x: Tensor) -> dict[str, float]:
    """Median time of a batch on the GPU that the run uses, as the metric ``gpu_ms``.

    Empty on a machine without one, and if the run is told to use the CPU.

    Examples
    --------
    >>> from torch import nn
    >>> gpu_ms(nn.Linear(2, 2), torch.zeros(1, 2)) if not torch.cuda.is_available() else {}
    {}
    """
    where = find_device(device())
    if where.type != "cuda":
        return {}
    there, x = copy.deepcopy(network).to(where).eval(), x.to(where)
    times = []
    with torch.inference_mode(), torch.cuda.device(where):
        for turn in range(_WARM_UP + _TURNS):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            there(x)
            end.record()
            torch.cuda.synchronize(where)
            if turn >= _WARM_UP:
                times.append(begin.elapsed_time(end))
    return {"gpu_ms": statistics.median(times)}
