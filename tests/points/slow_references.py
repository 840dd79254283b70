"""The operations as their definitions say, a point at a time."""

import math

import torch


def squared(a, b):
    return float(((a.double() - b.double()) ** 2).sum())


def slow_fps(cloud, n, start):
    chosen = [start]
    while len(chosen) < n:
        gaps = [min(squared(point, cloud[c]) for c in chosen) for point in cloud]
        chosen.append(max(range(len(cloud)), key=lambda i: gaps[i]))
    return chosen


def slow_start(cloud):
    centre = cloud.double().mean(0)
    return max(range(len(cloud)), key=lambda i: squared(cloud[i], centre))


def slow_knn(cloud, k, query):
    return sorted(range(len(cloud)), key=lambda i: squared(cloud[i], query))[:k]


def slow_ball(cloud, k, radius, query):
    order = slow_knn(cloud, k, query)
    inside = [i for i in order if squared(cloud[i], query) <= radius**2]
    return inside + [order[0]] * (k - len(inside))


def slow_density(cloud, bandwidth):
    return torch.tensor(
        [
            sum(math.exp(-squared(p, q) / (2 * bandwidth**2)) for q in cloud)
            / (len(cloud) * math.sqrt(2 * math.pi) * bandwidth)
            for p in cloud
        ]
    )
