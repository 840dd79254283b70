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
DENSE = """
import json, sys
import numpy as np
from nrs import NRSClassifier
rows = int(sys.argv[1])
X = np.random.default_rng(0).standard_normal((rows, 50), dtype=np.float32)
y = (X[:, 0] > 0).astype(np.int8)
small = NRSClassifier(epochs=1, n_mul=1).fit(X[:2000], y[:2000])
before = peak()
NRSClassifier(epochs=1, n_mul=1).fit(X, y)
after = peak()
print(json.dumps({"data": X.nbytes, "above": after - before}))
"""
SPARSE = """
import json, sys
import scipy.sparse as sp
import numpy as np
from nrs import NRSClassifier
rows, columns = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
cells = rng.integers(0, columns, rows * 50)
values = rng.random(rows * 50, dtype=np.float32)
X = sp.csr_matrix((values, cells, np.arange(rows + 1) * 50), shape=(rows, columns))
y = np.arange(rows) % 2
model = NRSClassifier(epochs=1, hidden=32).fit(X, y)
model.predict(X[:100]), model.feature_importances_
print(json.dumps({"peak": peak()}))
"""


def _run(script, *arguments):
    process = subprocess.run(
        [sys.executable, "-c", PEAK + script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        # A fixed threshold gives large arrays back when they are freed; glibc's own, which grows,
        # keeps from none to four of them.
        env=os.environ | {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "131072"},
    )
    return json.loads(process.stdout)


@pytest.mark.slow
def test_a_dense_table_is_not_copied_three_times():
    used = _run(DENSE, 300_000)
    assert used["above"] < 3 * used["data"]


@pytest.mark.slow
def test_a_sparse_table_stays_sparse():
    """Dense, these 4,000 × 50,000 cells alone would be 800 MB."""
    assert _run(SPARSE, 4_000, 50_000)["peak"] < 1_200e6


ALONE = """
import json, time
from sklearn.datasets import make_classification
from nrs import NRSClassifier
X, y = make_classification(1500, 20, random_state=0)
NRSClassifier(epochs=1, random_state=0).fit(X, y)
start = time.process_time()
NRSClassifier(epochs=15, random_state=0).fit(X, y)
print(json.dumps(time.process_time() - start))
"""


@pytest.mark.slow
def test_two_fits_at_once_do_not_fight_over_threads():
    """Threads that wait for a core burn CPU time, so CPU time shows a fight on any machine."""
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}

    def start():
        return subprocess.Popen(
            [sys.executable, "-c", ALONE], stdout=subprocess.PIPE, text=True, env=environment
        )

    alone = json.loads(start().communicate()[0])
    together = [json.loads(process.communicate()[0]) for process in (start(), start())]
    assert max(together) < 3 * alone
