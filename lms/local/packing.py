"""Linear layers whose weights are kept in the order in which the processor multiplies them.

Texts are drawn a few at a time, so that a step reads all weights and computes little. With weights as they are stored,
torch rearranges them in each of these products, which then take twice as long. Imported only once a local model is
wanted, for it imports torch.
"""

import platform

import torch
from torch import nn

_SMALLEST = 2**20
"""Weights of a layer that is worth it: smaller ones gain nothing."""
_MEASURED = ("x86_64", "amd64")


class _Packed(nn.Module):
    """A linear layer by oneDNN, with its own copy of the weights."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.bias = linear.bias
        self._packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach())

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(hidden, self._packed, self.bias, "none", [], "")
        return product


def pack(model: nn.Module) -> None:
    """Pack the large linear layers of a model that an x86 processor computes in 32 bits, where torch can do that."""
    if platform.machine().lower() not in _MEASURED or not hasattr(torch.ops.mkldnn, "_reorder_linear_weight"):
        return
    for module in list(model.modules()):
        for name, layer in list(module.named_children()):
            if isinstance(layer, nn.Linear) and type(layer).forward is nn.Linear.forward and _fits(layer.weight):
                setattr(module, name, _Packed(layer))


def _fits(weight: torch.Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype is torch.float32 and weight.numel() >= _SMALLEST
