"""NRS in CNNs: a head for any of them, a block for every squeeze-and-excitation, poolings."""

from nrs.vision._torchvision import timm, torchvision
from nrs.vision.cifar import cifar_network
from nrs.vision.excite import NRSExcite, SEBlock, replace_se
from nrs.vision.head import NRSHead, add_head, remove_head
from nrs.vision.models import ModelSettings, PooledClassifier, build_model, trunk
from nrs.vision.pooling import BilinearPool, CompactBilinearPool, ISqrtCovPool

__all__ = [
    "BilinearPool",
    "CompactBilinearPool",
    "ISqrtCovPool",
    "ModelSettings",
    "NRSExcite",
    "NRSHead",
    "PooledClassifier",
    "SEBlock",
    "add_head",
    "build_model",
    "cifar_network",
    "remove_head",
    "replace_se",
    "timm",
    "torchvision",
    "trunk",
]
