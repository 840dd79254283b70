"""Triangle meshes: .off, .obj, .ply, .stl and .glb files; needs trimesh."""

from __future__ import annotations

import codecs
import io
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nrs._util.optional import import_optional
from nrs.datasets.archives import open_stream
from nrs.datasets.errors import ArchiveError
from nrs.datasets.readers.rows import unreadable

MESHES = (".off", ".obj", ".ply", ".stl", ".glb")
# ModelNet's largest mesh has 50 MB and a million faces.
MAX_MESH_BYTES = 1 << 30
MAX_FACES = 20_000_000
# A vertex or a face of a text file takes at least so many characters ("0 0 0\n").
_LEAST_LINE = 5


@dataclass(frozen=True, eq=False)
class Mesh:
    """A surface of triangles.

    Attributes
    ----------
    vertices : array (V, 3), float64
        Their coordinates.
    faces : array (F, 3), int64
        Three vertices each; none if the file is a cloud of points.
    vertex_normals : array (V, 3) or None
        Those that a .ply file stores with its points.
    """

    vertices: NDArray[np.float64]
    faces: NDArray[np.int64]
    vertex_normals: NDArray[np.float64] | None = None

    def areas(self) -> NDArray[np.float64]:
        """Area of each triangle, (F,)."""
        return np.asarray(np.linalg.norm(self._cross(), axis=1) / 2)

    def normals(self) -> NDArray[np.float64]:
        """Unit normal of each triangle, (F, 3); zero for one without area."""
        cross = self._cross()
        length = np.linalg.norm(cross, axis=1, keepdims=True)
        return np.asarray(cross / np.where(length > 0, length, 1))

    def _cross(self) -> NDArray[np.float64]:
        a, b, c = (self.vertices[self.faces[:, i]] for i in range(3))
        return np.cross(b - a, c - a)


def read_mesh(
    path: str | os.PathLike[str],
    *,
    max_bytes: int = MAX_MESH_BYTES,
    max_faces: int = MAX_FACES,
    points_only: bool = False,
) -> Mesh:
    """Read a triangle mesh; polygons of an .off file are cut into triangles.

    Some of ModelNet's files have their counts on the line of the word OFF (``OFF490 518 0``);
    they are read as they are meant.

    Parameters
    ----------
    path : path
        An .off, .obj, .ply, .stl or .glb file, plain or compressed (gzip, bzip2, xz). The parts of
        a scene (.glb) become one mesh.
    max_bytes, max_faces : int
        Most bytes, and most vertices or faces, that are read.
    points_only : bool
        Whether a file without faces is read too, as a cloud.

    Raises
    ------
    ModuleNotFoundError
        If trimesh is not installed.
    DatasetFileError
        If the file is no such mesh, is damaged, larger than allowed, or has no surface.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "triangle.off"
    ...     _ = path.write_text("OFF3 1 0\\n0 0 0\\n2 0 0\\n0 2 0\\n3 0 1 2\\n")
    ...     read_mesh(path).areas().tolist()
    [2.0]
    """
    path = Path(path)
    kind = mesh_kind(path)
    try:
        with open_stream(path, max_bytes=max_bytes) as file:
            content = file.read()
    except ArchiveError as error:
        raise unreadable(path, f"mesh ({kind})", error) from None
    if not content.strip():
        raise unreadable(path, f"mesh ({kind})", "it is empty")
    if kind == ".off":
        content = _mended_off(content, path, max_faces)
    loaded = _trimesh_load(content, kind, path)
    vertices = np.asarray(getattr(loaded, "vertices", np.empty((0, 3))), np.float64)
    faces = np.asarray(getattr(loaded, "faces", np.empty((0, 3))), np.int64).reshape(-1, 3)
    mesh = Mesh(vertices, faces, None if len(faces) else _stored_normals(loaded))
    _check_mesh(mesh, path, kind, max_faces, points_only)
    return mesh


def mesh_kind(path: Path) -> str:
    """The ending that tells a mesh's format, without that of a compression.

    >>> mesh_kind(Path("chair.OFF.gz"))
    '.off'
    """
    endings = [ending.lower() for ending in path.suffixes]
    if endings and endings[-1] in (".gz", ".bz2", ".xz"):
        endings.pop()
    if not endings or endings[-1] not in MESHES:
        raise ValueError(
            f"a mesh must be a file {', '.join(MESHES)}; got {path.name!r}. Convert it, for "
            "instance with trimesh."
        )
    return endings[-1]


def _mended_off(content: bytes, path: Path, max_faces: int) -> bytes:
    """Put the counts on a line of their own, and compare them with the size of the file."""
    content = content.removeprefix(codecs.BOM_UTF8)
    start = re.match(rb"(?i)\s*(?:#[^\n]*\n\s*)*[A-Z0-9]{0,3}?OFF", content)
    if start is None:
        raise unreadable(path, "mesh (.off)", "it does not begin with OFF")
    head = content[start.start() : start.end()].split()[-1].upper()
    rest = content[start.end() :]
    if rest[:10].lstrip(b" \t").upper().startswith(b"BINARY"):
        raise unreadable(path, "mesh (.off)", "it is a binary one; save it as text")
    body = re.sub(rb"#[^\n]*", b"", rest)
    counts = re.match(rb"\s*(\d+)\s+(\d+)(?:[ \t]+\d+)?", body)
    if counts is None:
        raise unreadable(path, "mesh (.off)", "the numbers of vertices and faces are missing")
    n_vertices, n_faces = int(counts[1]), int(counts[2])
    if max(n_vertices, n_faces) > max_faces:
        raise unreadable(
            path, "mesh (.off)",
            f"it declares {n_vertices:,} vertices and {n_faces:,} faces, more than {max_faces:,}",
        )  # fmt: skip
    after = body[counts.end() :]
    lines = [line for line in after.splitlines() if line.strip()]
    if not _is_whole(after, lines, n_vertices, n_faces):
        raise unreadable(
            path, "mesh (.off)",
            f"it declares {n_vertices:,} vertices and {n_faces:,} faces, but ends after "
            f"{len(lines):,} lines",
        )  # fmt: skip
    return head + b"\n%d %d 0\n" % (n_vertices, n_faces) + after.lstrip()


def _is_whole(text: bytes, lines: list[bytes], n_vertices: int, n_faces: int) -> bool:
    """Whether there is a line for every vertex and face, the last of them not cut."""
    needed = n_vertices + n_faces
    if needed * _LEAST_LINE > len(text) + _LEAST_LINE or len(lines) < needed:
        return False
    if n_faces == 0:
        return True
    corners, *places = lines[needed - 1].split()
    return not corners.isdigit() or len(places) >= int(corners)


def _trimesh_load(content: bytes, kind: str, path: Path) -> Any:
    trimesh = import_optional("trimesh", "reading meshes", "points")
    try:
        # process=False: vertices stay as they are, so that areas and order do.
        loaded = trimesh.load(
            io.BytesIO(content), file_type=kind[1:], process=False, skip_materials=True
        )
    except Exception as error:  # trimesh raises whatever its parsers happen to
        raise unreadable(path, f"mesh ({kind})", f"{type(error).__name__}: {error}") from None
    if isinstance(loaded, trimesh.Scene):
        parts = [part for part in loaded.dump() if hasattr(part, "faces")]
        if not parts:
            raise unreadable(path, f"mesh ({kind})", "it has no faces")
        loaded = trimesh.util.concatenate(parts)
    return loaded


def _stored_normals(loaded: Any) -> NDArray[np.float64] | None:
    """The columns nx, ny, nz of a .ply file, which trimesh leaves out of a cloud of points."""
    raw = getattr(loaded, "metadata", {}).get("_ply_raw", {}).get("vertex", {})
    names = ("nx", "ny", "nz")
    if not set(names) <= set(raw.get("properties", ())):
        return None
    return np.stack([np.ravel(raw["data"][name]).astype(np.float64) for name in names], axis=1)


def _check_mesh(mesh: Mesh, path: Path, kind: str, max_faces: int, points_only: bool) -> None:
    n_vertices, n_faces = len(mesh.vertices), len(mesh.faces)
    if max(n_vertices, n_faces) > max_faces:
        problem = f"it has {n_vertices:,} vertices and {n_faces:,} faces, more than {max_faces:,}"
    elif n_vertices == 0:
        problem = "it has no vertices"
    elif mesh.vertices.ndim != 2 or mesh.vertices.shape[1] != 3:
        problem = f"its vertices have the shape {mesh.vertices.shape}"
    elif not np.isfinite(mesh.vertices).all():
        problem = "a coordinate is NaN or infinite"
    elif n_faces == 0:
        problem = "" if points_only else "it has no faces"
    elif mesh.faces.min() < 0 or mesh.faces.max() >= n_vertices:
        problem = f"a face names vertex {mesh.faces.max()}, but there are {n_vertices}"
    elif not (total := mesh.areas().sum()) > 0 or not np.isfinite(total):
        problem = "its faces have no area" if np.isfinite(total) else "its area is infinite"
    else:
        problem = ""
    if problem:
        raise unreadable(path, f"mesh ({kind})", problem)
