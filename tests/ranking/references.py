"""Every loss and metric again, slow and obvious: loops over queries, documents and pairs."""

import math

import torch


def ragged(generator, queries, longest, grades=4, dtype=torch.float64):
    """Random queries of different lengths: scores, labels and mask, padded with rubbish."""
    lengths = torch.randint(1, longest + 1, (queries,), generator=generator)
    shape = (queries, int(lengths.max()))
    scores = torch.randn(shape, generator=generator, dtype=dtype)
    labels = torch.randint(grades, shape, generator=generator)
    return scores, labels, torch.arange(shape[1]) < lengths[:, None]


def by_query(function):
    """The mean of a function of one query's scores and labels, as lists."""

    def loss(scores, labels, mask):
        values = []
        for s, y, m in zip(scores, labels, mask, strict=True):
            values.append(function(s[m].tolist(), [int(v) for v in y[m]]))
        return sum(values) / len(values)

    return loss


def _log1p_exp(x):
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _log_sum_exp(values):
    top = max(values)
    return top + math.log(sum(math.exp(value - top) for value in values))


def _gain(y):
    return 2**y - 1


def _ideal(y):
    best = sorted(map(_gain, y), reverse=True)
    return sum(gain / math.log2(2 + place) for place, gain in enumerate(best))


@by_query
def ranknet(s, y):
    total = 0.0
    for i in range(len(s)):
        for j in range(i + 1, len(s)):
            order = (y[i] > y[j]) - (y[i] < y[j])
            d = s[i] - s[j]
            total += 0.5 * (1 - order) * d + _log1p_exp(-d)
    return total


@by_query
def listnet(s, y):
    log_given = [value - _log_sum_exp(s) for value in s]
    wanted = [math.exp(value - _log_sum_exp(y)) for value in y]
    return -sum(w * g for w, g in zip(wanted, log_given, strict=True))


@by_query
def rank_cosine(s, y):
    product = sum(a * b for a, b in zip(s, y, strict=True))
    norms = math.sqrt(sum(a * a for a in s)) * math.sqrt(sum(b * b for b in y))
    return (1 - (product / norms if norms else 0.0)) / 2


@by_query
def approx_ndcg(s, y):
    if _ideal(y) == 0:
        return 0.0
    dcg = 0.0
    for i in range(len(s)):
        rank = 0.5 + sum(1 / (1 + math.exp(-10 * (other - s[i]))) for other in s)
        dcg += _gain(y[i]) / math.log2(1 + rank)
    return -dcg / _ideal(y)


@by_query
def urank(s, y):
    total = 0.0
    for i in range(len(s)):
        rivals = [s[i], *(s[j] for j in range(len(s)) if y[j] < y[i])]
        total -= _gain(y[i]) * (s[i] - _log_sum_exp(rivals))
    return total


@by_query
def lambdarank(s, y):
    if _ideal(y) == 0:
        return 0.0
    ranks = []
    for i in range(len(s)):
        ahead = sum(o > s[i] or (o == s[i] and y[j] < y[i]) for j, o in enumerate(s))
        equal = sum(o == s[i] and y[j] == y[i] for j, o in enumerate(s)) - 1
        ranks.append(1 + ahead + equal / 2)
    total = 0.0
    for i in range(len(s)):
        for j in range(len(s)):
            if y[i] > y[j]:
                swap = 1 / math.log2(1 + ranks[i]) - 1 / math.log2(1 + ranks[j])
                weight = (_gain(y[i]) - _gain(y[j])) * abs(swap) / _ideal(y)
                total += weight * _log1p_exp(-(s[i] - s[j])) / math.log(2)
    return total


@by_query
def wass_rank(s, y, epsilon=0.1, iterations=50):
    n = range(len(s))
    cost = [[0.0] * len(s) for _ in n]
    for i in n:
        for j in n:
            if i != j and y[i] == y[j]:
                cost[i][j] = math.e
            elif i != j:
                gap = 100 if (y[i] == 0) != (y[j] == 0) else 0
                cost[i][j] = abs(_gain(y[i]) - _gain(y[j])) + gap
    log_a = [value - _log_sum_exp(s) for value in s]
    log_b = [value - _log_sum_exp(y) for value in y]
    f = [0.0 for _ in n]
    for _ in range(iterations):
        g = [
            epsilon * (log_b[j] - _log_sum_exp([(f[i] - cost[i][j]) / epsilon for i in n]))
            for j in n
        ]
        f = [
            epsilon * (log_a[i] - _log_sum_exp([(g[j] - cost[i][j]) / epsilon for j in n]))
            for i in n
        ]
    return sum(math.exp(log_a[i]) * f[i] + math.exp(log_b[i]) * g[i] for i in n)


REFERENCES = {
    "ranknet": ranknet,
    "listnet": listnet,
    "approx_ndcg": approx_ndcg,
    "rank_cosine": rank_cosine,
    "wass_rank": wass_rank,
    "urank": urank,
    "lambdarank": lambdarank,
}
