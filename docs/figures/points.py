"""Draw the points that decide the class of a cloud: docs/images/critical.png.

Run by `make figures`. A PointNet with NRS learns four solids of random proportions and directions,
then tells by which points it knows new ones.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import torch
import torch.nn.functional as F
import trimesh

from nrs.points import PointNet, unit_sphere
from nrs.points.critical import critical_weights
from nrs.points.picture import scatter_cloud

TARGET = Path(__file__).parents[1] / "images" / "critical.png"
SOLIDS = {
    "box": lambda a, b: trimesh.creation.box((1, a, b)),
    "cylinder": lambda a, b: trimesh.creation.cylinder(a / 2, b),
    "cone": lambda a, b: trimesh.creation.cone(a / 2, b),
    "ring": lambda a, b: trimesh.creation.torus(1, 0.2 + 0.3 * b),
}
POINTS, BATCH, STEPS = 512, 32, 150


def clouds(labels: list[int], rng: np.random.Generator) -> torch.Tensor:
    """Clouds of solids of these kinds, (n, POINTS, 3)."""
    makers, found = list(SOLIDS.values()), []
    for label in labels:
        mesh = makers[label](*rng.uniform(0.5, 1, 2))
        points, _ = trimesh.sample.sample_surface(mesh, POINTS, seed=int(rng.integers(1 << 31)))
        turned = points @ trimesh.transformations.random_rotation_matrix(rng.random(3))[:3, :3]
        found.append(unit_sphere(torch.from_numpy(turned).float()))
    return torch.stack(found)


def main() -> None:
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    model = PointNet(len(SOLIDS), subspace={"n_mul": 2, "n_per": 64})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(STEPS):
        labels = rng.integers(len(SOLIDS), size=BATCH)
        optimizer.zero_grad()
        F.cross_entropy(model(clouds(labels, rng)), torch.from_numpy(labels)).backward()
        optimizer.step()
    model.eval()
    figure = plt.figure(figsize=(10, 3), layout="constrained")
    for number, (name, cloud) in enumerate(zip(SOLIDS, clouds(range(4), rng), strict=True)):
        axes = figure.add_subplot(1, len(SOLIDS), number + 1, projection="3d")
        n_critical = scatter_cloud(axes, cloud, critical_weights(model, cloud))
        told = list(SOLIDS)[int(model(cloud[None]).argmax())]
        axes.set_title(f"{told}\n{n_critical} of {POINTS} points", fontsize=10, y=0.93)
        assert told == name, f"a {name} is taken for a {told}"
    figure.savefig(TARGET, dpi=110)


if __name__ == "__main__":
    main()
