"""What a fit needs beyond its data, measured in a process of its own."""

import json
import os
import subprocess
import sys

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("peak memory is read from Linux's /proc", allow_module_level=True)

# Not getrusage: its peak is inherited from the process that started this one.
PEAK = """
import re
def peak():
    status = open("/proc/self/status").read()
    return 1024 * int(re.search("VmHWM: *([0-9]+)", status.replace("\t", " "))[1])
"""
TABLES = """
import json
import numpy as np
import scipy.sparse as sp
from nrs import NRSClassifier

# A small network: what is measured is what happens to the table.
model = NRSClassifier(preset="fast", epochs=1, n_mul=1, hidden=4)
rng = np.random.default_rng(0)
X = rng.standard_normal((100_000, 50), dtype=np.float32)
y = (X[:, 0] > 0).astype(np.int8)
model.fit(X[:2000], y[:2000])
before = peak()
model.fit(X, y)
found = {"data": X.nbytes, "above": peak() - before}

before = peak()
rows, columns = 2_000, 50_000
cells = rng.integers(0, columns, rows * 50)
values = rng.random(rows * 50, dtype=np.float32)
X = sp.csr_matrix((values, cells, np.arange(rows + 1) * 50), shape=(rows, columns))
model = NRSClassifier(preset="fast", epochs=1, hidden=8).fit(X, np.arange(rows) % 2)
model.predict(X[:100]), model.feature_importances_
print(json.dumps(found | {"dense": 4 * rows * columns, "sparse": peak() - before}), flush=True)
"""
FITS = """
import sys, time
from sklearn.datasets import make_classification
from nrs import NRSClassifier
X, y = make_classification(1500, 20, random_state=0)
NRSClassifier(epochs=1, random_state=0).fit(X, y)
print("ready", flush=True)
for _ in sys.stdin:
    start = time.process_time()
    NRSClassifier(epochs=3, random_state=0).fit(X, y)
    print(time.process_time() - start, flush=True)
"""


def _start(script):
    # As users start it: nothing says how many threads there are.
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    # A fixed threshold gives large arrays back when they are freed; glibc's own, which grows,
    # keeps from none to four of them.
    environment["MALLOC_MMAP_THRESHOLD_"] = "1048576"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", script], env=environment, **pipes)


@pytest.fixture(scope="module")
def process():
    """One process for all of it: half of its time goes to imports."""
    process = _start(PEAK + TABLES + FITS)
    yield process
    process.communicate()


@pytest.fixture(scope="module")
def used(process):
    return json.loads(process.stdout.readline())


@pytest.mark.slow
def test_a_dense_table_is_not_copied_three_times(used):
    assert used["above"] < 3 * used["data"]


@pytest.mark.slow
def test_a_sparse_table_stays_sparse(used):
    """Dense, these 2,000 × 50,000 cells alone would be 400 MB."""
    assert used["sparse"] < used["dense"]


@pytest.mark.slow
def test_two_fits_at_once_do_not_fight_over_threads(process, used):
    """Threads that wait for a core burn CPU time, so CPU time shows a fight on any machine."""
    two = [process, _start(FITS)]
    for one in two:
        assert one.stdout.readline() == "ready\n"

    def seconds(processes):
        for one in processes:
            one.stdin.write("fit\n")
            one.stdin.flush()
        return [float(one.stdout.readline()) for one in processes]

    (alone,) = seconds(two[:1])
    together = seconds(two)
    two[1].communicate()
    assert max(together) < 3 * alone
