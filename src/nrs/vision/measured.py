"""How a picture is prepared for measuring and predicting, by the same numbers everywhere.

`Measured` is quick, for torch. `MeasuredByProducts` gives the same numbers by two products for each
picture, whose shapes alone follow its size: so it leaves as ONNX.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Of the bicubic kernel: as in PIL and in torch's antialiased interpolation.
_SLOPE = -0.5


class Measured(nn.Module):
    """The middle of a picture whose shorter side was brought to a length, normalised.

    **Shape** input ``(…, 3, H, W)`` of bytes, output ``(…, 3, size, size)``.

    Parameters
    ----------
    size : side of the middle.
    side : length of the shorter side before it is cut, at least `size`.
    mean, std : of pixels from 0 to 1.

    Examples
    --------
    >>> x = torch.randint(0, 256, (2, 3, 50, 70), dtype=torch.uint8)
    >>> prepared = Measured(16, 20, (0.5,) * 3, (0.25,) * 3)(x)
    >>> prepared.shape, bool(prepared.abs().max() <= 2)
    (torch.Size([2, 3, 16, 16]), True)
    """

    mean: Tensor
    std: Tensor

    def __init__(self, size: int, side: int, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.size, self.side = size, side
        for name, values in (("mean", mean), ("std", std)):
            numbers = torch.tensor(values, dtype=torch.float32)
            self.register_buffer(name, numbers.view(-1, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        short = min(height, width)
        resized = [self.side * height // short, self.side * width // short]
        x = x.as_subclass(Tensor).float() / 255
        if resized != [height, width]:
            flat = x.reshape(-1, 3, height, width)
            x = F.interpolate(flat, resized, mode="bicubic", antialias=True).reshape(
                *x.shape[:-2], *resized
            )
        top, left = (round((length - self.size) / 2) for length in resized)
        x = x[..., top : top + self.size, left : left + self.size]
        return (x.clamp(0, 1) - self.mean) / self.std


class MeasuredByProducts(Measured):
    """The same by a product with a matrix on each side.

    **Shape** input ``(…, 3, H, W)`` of bytes, output ``(…, 3, size, size)``.

    Examples
    --------
    >>> x = torch.randint(0, 256, (3, 50, 70), dtype=torch.uint8)
    >>> numbers = 16, 20, (0.5,) * 3, (0.25,) * 3
    >>> torch.allclose(MeasuredByProducts(*numbers)(x), Measured(*numbers)(x), atol=1e-5)
    True
    """

    def forward(self, x: Tensor) -> Tensor:
        height = torch.scalar_tensor(x.shape[-2], dtype=torch.int64)
        width = torch.scalar_tensor(x.shape[-1], dtype=torch.int64)
        short = torch.minimum(height, width)
        rows = self._weights(height, short, torch.arange(x.shape[-2]))
        columns = self._weights(width, short, torch.arange(x.shape[-1]))
        x = rows @ (x.float() / 255) @ columns.T
        return (x.clamp(0, 1) - self.mean) / self.std

    def _weights(self, length: Tensor, short: Tensor, places: Tensor) -> Tensor:
        """What each pixel of a side counts in each of the middle: (size, length)."""
        resized = torch.div(self.side * length, short, rounding_mode="floor")
        scale = length.double() / resized.double()
        # Halves go to the even number, as Python's round does.
        first = ((resized - self.size).double() / 2).round()
        centres = (torch.arange(self.size, dtype=torch.float64) + first + 0.5) * scale
        # An enlarged picture is interpolated, a reduced one averaged over all that a pixel covers.
        steps = (places.double() + 0.5 - centres[:, None]) / scale.clamp(min=1)
        weights = _bicubic(steps.abs())
        return (weights / weights.sum(1, keepdim=True)).float()


def _bicubic(distance: Tensor) -> Tensor:
    """Keys' kernel of a distance in pixels."""
    near = ((_SLOPE + 2) * distance - (_SLOPE + 3)) * distance * distance + 1
    far = _SLOPE * (((distance - 5) * distance + 8) * distance - 4)
    zero = torch.zeros_like(distance)
    return torch.where(distance < 1, near, torch.where(distance < 2, far, zero))
