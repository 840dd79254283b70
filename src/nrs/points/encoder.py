"""What every encoder of clouds answers."""

from __future__ import annotations

from torch import Tensor, nn

from nrs.points.checks import check_clouds
from nrs.points.gather import canonical_order
from nrs.points.head import PointHead, check_features


class PointEncoder(nn.Module):
    """Base of the encoders: cloud → global feature → head → scores of the classes.

    In evaluation mode the points are first put into one canonical order, so that the result
    does not depend on the order they came in.

    Attributes
    ----------
    num_features : width of the global feature.
    num_classes : width of the output.
    normals : whether a point has a normal besides its coordinates.
    """

    num_features: int
    head: PointHead
    # Whether the order of points can decide anything but rounding.
    order_matters = True

    def __init__(self, *, normals: bool) -> None:
        super().__init__()
        self.normals = bool(normals)

    @property
    def num_classes(self) -> int:
        """Width of the output."""
        return self.head.num_classes

    @property
    def channels(self) -> int:
        """Numbers of a point: 3, or 6 with normals."""
        return 6 if self.normals else 3

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the classes, (B, N, 3 or 6) to (B, num_classes)."""
        return self.forward_head(self.forward_features(x))

    def forward_features(self, x: Tensor) -> Tensor:
        """The global feature of every cloud, (B, N, 3 or 6) to (B, num_features)."""
        check_clouds(x, "the clouds", self.channels)
        if self.order_matters and not self.training:
            x = canonical_order(x)
        return self._features(x)

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Scores of the classes from global features."""
        check_features(x, self.num_features)
        scores: Tensor = self.head(x, pre_logits)
        return scores

    def reset_classifier(self, num_classes: int) -> None:
        """Replace the last layer by a fresh one for so many classes."""
        self.head.reset_classifier(num_classes)

    def _features(self, x: Tensor) -> Tensor:
        raise NotImplementedError
