"""A module in an ONNX graph gives what torch gives."""

import numpy as np
import pytest
import torch

from nrs.core import fold
from nrs.tabular.export.graph import IR_VERSION, OPSETS, Graph
from nrs.tabular.export.module import for_export
from nrs.tabular.forest.bins import PiecewiseLinear
from nrs.tabular.forest.network import ForestNetwork
from nrs.tabular.network import TableNetwork
from nrs.tabular.targets import mean_odds, mean_probabilities, mean_values

onnx = pytest.importorskip("onnx", reason="needs onnx")
runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")


def table_network(activation="relu", **settings):
    network = TableNetwork(7, 3, hidden=(5,), n_mul=2, seed=0, **settings)
    if network.subspaces is not None:
        network.subspaces.activation = activation
    with torch.no_grad():
        network(torch.randn(50, 7))  # statistics that are not 0 and 1
    return fold(network.eval())


def forest(combine, *, wide):
    bins = PiecewiseLinear.between([(0, [0.0, 1.0, 3.0])], [(2, [0.0, 1.0, 2.0])])
    size = 1 if wide else 2
    index = torch.randint(0, 7 + bins.n_bins + 1, (4, 6, size))
    settings = {"hidden": (5, 4), "combine": combine, "seed": 1}
    network = ForestNetwork(7, 3, index, bins, **settings).train()
    network.members(torch.randn(50, 7))
    network.shares.copy_(torch.arange(4.0))
    network.temperature.fill_(1.3)
    return network.eval().fold().requires_grad_(False)


def written(network):
    """The bytes of a file that takes "x"."""
    graph = Graph()
    x = graph.input("x", np.float32, 7)
    graph.output("y", graph.module(for_export(network), [7], x), np.float32, 3)
    return graph.serialize({})


@pytest.mark.parametrize("max_cells", [0, 1 << 23])
@pytest.mark.parametrize(
    "make",
    [
        lambda: table_network(),
        lambda: table_network("sigmoid"),
        lambda: table_network(None),
        lambda: table_network(depth=2, n_h=5),
        lambda: table_network("sigmoid", depth=2, n_h=5),
        lambda: table_network(n_per=2, dropout=0.1, input_dropout=0.1),
        *[
            lambda combine=combine, wide=wide: forest(combine, wide=wide)
            for combine in (mean_probabilities, mean_odds, mean_values)
            for wide in (False, True)
        ],
    ],
)
def test_any_number_of_rows(make, max_cells, monkeypatch):
    monkeypatch.setattr("nrs.tabular.export.module.MAX_CELLS", max_cells)
    torch.manual_seed(0)
    network = make().requires_grad_(False)
    session = runtime.InferenceSession(written(network))
    x = torch.randn(20, 7)
    for rows in (x, x[:1]):
        np.testing.assert_allclose(for_export(network)(rows), network(rows), atol=1e-5)
        (found,) = session.run(None, {"x": rows.numpy()})
        np.testing.assert_allclose(found, network(rows), atol=1e-5)


def test_the_file_is_for_older_runtimes_and_names_no_source():
    content = written(table_network())
    model = onnx.load_from_string(content)
    assert (model.ir_version, IR_VERSION) == (8, 8)
    assert {entry.domain: entry.version for entry in model.opset_import} == OPSETS
    assert OPSETS[""] == 18
    assert b".py" not in content
