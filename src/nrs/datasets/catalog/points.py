"""Point clouds and the meshes they are sampled from."""

from __future__ import annotations

from typing import Any

from nrs.datasets.entry import Entry, Source

_GIB = 1 << 30
_PAGE = "https://modelnet.cs.princeton.edu/"
_LICENCE = "academic use only (Princeton ModelNet)"
_HDF5: dict[str, Any] = {
    "url": "https://shapenet.cs.stanford.edu/media/modelnet40_ply_hdf5_2048.zip",
    "file": "modelnet40_ply_hdf5_2048.zip",
    "format": "hdf5",
    "limit": 2 * _GIB,
}
_INSIDE = "modelnet40_ply_hdf5_2048/"


def _meshes(
    name: str,
    title: str,
    file: str,
    rows: dict[str, int],
    n_classes: int,
    notes: str,
    archive: Source,
    variant_of: str | None = None,
) -> Entry:
    return Entry(
        name=name,
        title=title,
        files=(file,),
        rows=rows,
        shape=(),
        n_classes=n_classes,
        kind="points",
        page=_PAGE,
        licence=_LICENCE,
        notes=notes,
        sources=(archive,),
        layout="files",
        variant_of=variant_of,
    )


POINTS: tuple[Entry, ...] = (
    Entry(
        name="ModelNet40",
        title="Clouds of 2,048 points on 40 kinds of CAD models",
        files=("modelnet40",),
        rows={"train": 9840, "test": 2468},
        shape=(2048, 3),
        n_classes=40,
        kind="points",
        page=_PAGE,
        licence=_LICENCE,
        sources=(
            Source(
                part="train",
                members=tuple(f"{_INSIDE}ply_data_train{i}.h5" for i in range(5)),
                **_HDF5,
            ),
            Source(
                part="test",
                members=tuple(f"{_INSIDE}ply_data_test{i}.h5" for i in range(2)),
                **_HDF5,
            ),
        ),
        notes=(
            "The sampled form most work uses; reading it needs h5py. Its server has often been out "
            "of reach since late 2024: a copy of the archive by hand will do. The paper takes "
            "1,024 points and prints 9823 and 2464 objects; the meshes are 9843 and 2468 "
            "(ModelNet40-meshes)."
        ),
    ),
    _meshes(
        "ModelNet40-meshes", "CAD models of 40 kinds (.off)", "ModelNet40",
        {"train": 9843, "test": 2468}, 40, "A folder a kind, with train/ and test/ below.",
        Source(
            url="https://modelnet.cs.princeton.edu/ModelNet40.zip",
            file="ModelNet40.zip", part="all", format="files", limit=16 * _GIB,
        ),
        variant_of="ModelNet40",
    ),
    _meshes(
        "ModelNet40-normals", "Clouds of 10,000 points with normals on 40 kinds of CAD models",
        "modelnet40_normal_resampled", {"train": 9843, "test": 2468}, 40,
        "A text a cloud, x,y,z,nx,ny,nz a line, and lists of names: what the paper trains "
        "PointNet++ on. Its server has often been out of reach since late 2024: a copy by hand "
        "will do.",
        Source(
            url="https://shapenet.cs.stanford.edu/media/modelnet40_normal_resampled.zip",
            file="modelnet40_normal_resampled.zip", part="all", format="files", limit=16 * _GIB,
        ),
        variant_of="ModelNet40",
    ),
    _meshes(
        "ModelNet10", "CAD models of 10 kinds (.off)", "ModelNet10",
        {"train": 3991, "test": 908}, 10,
        "A folder a kind, with train/ and test/ below. ModelNet10-points has clouds.",
        Source(
            url="https://3dvision.princeton.edu/projects/2014/3DShapeNets/ModelNet10.zip",
            file="ModelNet10.zip", part="all", format="files", limit=8 * _GIB,
        ),
    ),
    Entry(
        name="ModelNet10-points",
        title="Clouds of 1,024 points on 10 kinds of CAD models",
        files=("modelnet10",),
        rows={"train": 3964, "test": 901},
        shape=(1024, 3),
        n_classes=10,
        kind="points",
        page=_PAGE,
        licence=_LICENCE,
        notes="Points from surface voxels of the meshes, jittered; 34 of the 4,899 are missing.",
        variant_of="ModelNet10",
    ),
    _meshes(
        "ModelNet-samples", "Ten CAD models (.off)", "modelnet_off_samples",
        {"all": 10}, 10, "For trying a mesh reader.",
        Source(
            file="modelnet_off_samples.tar.gz", part="all", format="files", limit=_GIB
        ),
        variant_of="ModelNet40",
    ),
)  # fmt: skip
