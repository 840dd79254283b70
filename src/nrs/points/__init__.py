"""Point clouds: operations, encoders with random subspaces, data and training."""

from nrs.points.augment import Augmentation
from nrs.points.clouds import unit_sphere
from nrs.points.density import density
from nrs.points.dgcnn import DGCNN
from nrs.points.farthest import farthest_point_sampling
from nrs.points.head import PointHead, add_head
from nrs.points.neighbours import ball_query, knn
from nrs.points.pointconv import PointConv
from nrs.points.pointnet import PointNet
from nrs.points.pointnet2 import PointNet2
from nrs.points.registry import create
from nrs.points.rscnn import RSCNN
from nrs.points.samples import CloudSamples

__all__ = [
    "DGCNN",
    "RSCNN",
    "Augmentation",
    "CloudSamples",
    "PointConv",
    "PointHead",
    "PointNet",
    "PointNet2",
    "add_head",
    "ball_query",
    "create",
    "density",
    "farthest_point_sampling",
    "knn",
    "unit_sphere",
]
