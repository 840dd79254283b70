"""What people do to networks, tried on networks with our head: 64 of timm, 21 of torchvision.

    python -m benchmarks.matrix results/matrix.json --page results/matrix.md
    python -m benchmarks.matrix --refusals

Weights are random, seed 0; all in one process. What fails is compared with the network as it was:
"as before" means that it fails without our head too. Cells that the file has are not measured
again: a run that was stopped resumes; with `--show` none is measured. `--refusals` tries the advice
of every refusal.
"""

from __future__ import annotations

import argparse
import copy
import io
import json
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.measure import Planned, here, measure_cells, table
from nrs.vision import NRSHead, add_head, remove_head, timm, torchvision

CLASSES = 5
# The smallest of each family; sides of pictures, 0 for the network's own.
TIMM = {
    "eca_resnext26ts": 64, "cait_xxs24_224": 0, "coat_lite_tiny": 0, "convit_tiny": 0,
    "convmixer_768_32": 64, "convnext_atto": 64, "cs3darknet_focus_s": 64,
    "deit_tiny_patch16_224": 0, "densenet121": 64, "dla46x_c": 64, "dpn48b": 64,
    "edgenext_xx_small": 64, "efficientnet_b0": 64, "efficientvit_b0": 64, "efficientvit_m0": 0,
    "eva02_tiny_patch14_224": 0, "fastvit_t8": 64, "gcvit_xxtiny": 0, "ghostnet_050": 64,
    "hardcorenas_a": 64, "hgnetv2_b0": 64, "hrnet_w18_small": 64, "inception_next_atto": 64,
    "inception_v3": 96, "inception_v4": 96, "lcnet_035": 64, "legacy_seresnet18": 64,
    "mambaout_femto": 64, "caformer_s18": 64, "gmixer_12_224": 0, "mixer_s32_224": 0,
    "mobilenetv2_050": 64, "mobilenetv3_small_050": 64, "mobilenetv4_conv_small_035": 64,
    "mobilevit_xxs": 64, "nest_tiny": 0, "nf_regnet_b0": 64, "pit_ti_224": 0, "poolformer_s12": 64,
    "pvt_v2_b0": 64, "rdnet_tiny": 64, "regnetx_002": 64, "repghostnet_050": 64, "repvgg_a0": 64,
    "res2net50_14w_8s": 64, "resmlp_12_224": 0, "resnest14d": 64, "resnet18": 64,
    "resnetv2_18": 64, "rexnet_100": 64, "selecsls42": 64, "seresnet18": 64, "skresnet18": 64,
    "starnet_s1": 64, "swin_tiny_patch4_window7_224": 0, "tf_mixnet_s": 64, "tiny_vit_5m_224": 0,
    "tresnet_m": 64, "twins_svt_small": 0, "vgg11": 64, "visformer_tiny": 0,
    "vit_tiny_patch16_224": 0, "vovnet39a": 64, "xcit_nano_12_p16_224": 0,
}  # fmt: skip
TORCHVISION = {
    "alexnet": 64, "convnext_tiny": 64, "densenet121": 64, "efficientnet_b0": 64,
    "efficientnet_v2_s": 64, "googlenet": 64, "inception_v3": 299, "mnasnet0_5": 64,
    "mobilenet_v2": 64, "mobilenet_v3_small": 64, "regnet_x_400mf": 64, "regnet_y_400mf": 64,
    "resnet18": 64, "resnet50": 64, "resnext50_32x4d": 64, "shufflenet_v2_x0_5": 64,
    "squeezenet1_1": 64, "swin_t": 64, "vgg11_bn": 64, "vit_b_16": 224, "wide_resnet50_2": 64,
}  # fmt: skip
# A dozen of different kinds, for the tests.
QUICK = [
    ("timm", "convnext_atto"), ("timm", "deit_tiny_patch16_224"), ("timm", "efficientvit_m0"),
    ("timm", "ghostnet_050"), ("timm", "lcnet_035"), ("timm", "mobilenetv3_small_050"),
    ("timm", "regnetx_002"), ("timm", "resnet18"), ("timm", "seresnet18"),
    ("torchvision", "mobilenet_v3_small"), ("torchvision", "shufflenet_v2_x0_5"),
    ("torchvision", "squeezenet1_1"),
]  # fmt: skip
REFUSED = (
    "levit_128s", "pit_ti_distilled_224", "repvit_m1", "iformer_m_distilled", "volo_d1_224",
    "crossvit_9_240", "efficientformer_l1", "efficientformerv2_s0", "efficientvim_m1",
    "swiftformer_xs", "deit_tiny_distilled_patch16_224",
)  # fmt: skip


def make(source: str, name: str) -> tuple[nn.Module, Tensor]:
    """A network with random weights, and two pictures for it."""
    torch.manual_seed(0)
    if source == "timm":
        model: nn.Module = timm().create_model(name, pretrained=False, num_classes=11)
        side = TIMM[name] or model.default_cfg["input_size"][-1]  # type: ignore[index,union-attr]
    else:
        further = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
        model = torchvision().models.get_model(name, weights=None, num_classes=11, **further)
        side = TORCHVISION[name]
    return model.eval(), torch.randn(2, 3, side, side)


def _close(found: Tensor, expected: Tensor) -> None:
    error = float((found - expected).abs().max() / expected.abs().max().clamp_min(1e-6))
    if not error < 1e-3:
        raise AssertionError(f"outputs differ by {error:.2g} of the largest")


def _forward(model: nn.Module, x: Tensor) -> None:
    if model(x).shape[0] != 2:
        raise AssertionError("not two rows")


def _backward(model: nn.Module, x: Tensor) -> None:
    model.train()
    out = model(x)
    outputs = [out] if isinstance(out, Tensor) else list(out)
    torch.stack([part.sum() for part in outputs if part is not None]).sum().backward()
    first = next(model.parameters())
    if first.grad is None or not first.grad.isfinite().all():
        raise AssertionError("no gradient reaches the first layer")


def _state(model: nn.Module, x: Tensor) -> None:
    expected, buffer = model(x), io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    model.load_state_dict(torch.load(buffer, weights_only=True))
    _close(model(x), expected)


def _compile(model: nn.Module, x: Tensor) -> None:
    _close(torch.compile(model, backend="aot_eager", fullgraph=True)(x), model(x))


def _export(model: nn.Module, x: Tensor) -> None:
    _close(torch.export.export(model, (x,)).module()(x), model(x))


def _fx(model: nn.Module, x: Tensor) -> None:
    _close(torch.fx.symbolic_trace(model)(x), model(x))


def _onnx(model: nn.Module, x: Tensor) -> None:
    import onnxruntime

    program = torch.onnx.export(model, (x,), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(
        program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    _close(torch.from_numpy(np.asarray(found)), model(x))


def _deepcopy(model: nn.Module, x: Tensor) -> None:
    _close(copy.deepcopy(model)(x), model(x))


QUICK_CHECKS: dict[str, Callable[[nn.Module, Tensor], None]] = {
    "forward": _forward, "backward": _backward, "state dict": _state, "deepcopy": _deepcopy,
    "FX": _fx,
}  # fmt: skip
SLOW_CHECKS = {"export": _export, "compile": _compile, "ONNX": _onnx}
CHECKS = QUICK_CHECKS | SLOW_CHECKS


def _tried(check: Callable[[nn.Module, Tensor], None], model: nn.Module, x: Tensor) -> str:
    """Empty if a check passes on a copy, else what it says."""
    model, grads = copy.deepcopy(model), check is _backward
    torch._dynamo.reset()
    try:
        with torch.set_grad_enabled(grads):
            check(model, x)
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        return f"{type(error).__name__}: {lines[0][:160]}"
    return ""


def cell(source: str, name: str, checks: list[str]) -> dict[str, Any]:
    """Every check of one network: "ok", "as before: …" or "fails: …"."""
    warnings.simplefilter("ignore")
    model, x = make(source, name)
    with torch.no_grad():
        before = model(x)
    plain, names = copy.deepcopy(model), set(model.state_dict())
    try:
        add_head(model, CLASSES, seed=0)
    except ValueError as error:
        return {"input": list(x.shape), "refused": str(error)}
    head = next(module for module in model.modules() if isinstance(module, NRSHead))
    found: dict[str, Any] = {}
    for label in checks:
        said = _tried(CHECKS[label], model, x)
        if said:
            also = _tried(CHECKS[label], plain, x)
            said = f"as before: {also}" if also else f"fails: {said}"
        found[label] = said or "ok"
    if hasattr(model, "get_classifier"):
        classifier = model.get_classifier()
        held = any(module is head for module in classifier.modules())
        kind = "ok" if classifier is head else f"inside {type(classifier).__name__}"
        found["get_classifier"] = kind if held else "fails: another module"
    else:
        found["get_classifier"] = "the network has none"
    remove_head(model)
    with torch.no_grad():
        same = set(model.state_dict()) == names and torch.equal(model(x), before)
    found["remove"] = "ok" if same else "fails: another network"
    return {"input": list(x.shape), "n_per": head.nrs.n_per} | found


def refusal(name: str) -> dict[str, Any]:
    """What a refusal says, and whether each piece of its advice works."""
    with torch.device("meta"):
        model = timm().create_model(name)
        x = torch.empty(2, *model.default_cfg["input_size"])
        try:
            add_head(model, CLASSES)
        except ValueError as error:
            message = str(error)
        else:
            return {"message": "not refused"}
        tried = {}
        for option in ("distilled", "distillation", "use_aux_head"):
            if f"{option}=False" in message:
                single = add_head(timm().create_model(name, **{option: False}), CLASSES)
                tried[f"{option}=False"] = list(single.eval()(x).shape)
        model.reset_classifier(0)
        behind = nn.Sequential(model, NRSHead(model.num_features, CLASSES)).eval()
        tried["nn.Sequential"] = list(behind(x).shape)
    return {"message": message, "tried": tried}


def plan() -> Iterator[Planned]:
    """Every refusal, then every network: what is quick first, a dozen of all kinds first."""
    for name in REFUSED:
        yield {"source": "timm", "name": name, "refused": True}, refusal, {"name": name}
    others = [("timm", name) for name in TIMM] + [("torchvision", name) for name in TORCHVISION]
    for checks in (list(QUICK_CHECKS), *([name] for name in SLOW_CHECKS)):
        for source, name in dict.fromkeys([*QUICK, *others]):
            network = {"source": source, "name": name}
            yield network | {"checks": checks}, cell, network | {"checks": checks}


def page(report: dict[str, Any]) -> str:
    """The matrix as markdown: counts, every network, why not, and the refusals."""
    labels = [*CHECKS, "get_classifier", "remove"]
    refused = [one for one in report["cells"] if "message" in one]
    found: dict[str, dict[str, Any]] = {}
    for one in report["cells"]:
        if one not in refused:
            found.setdefault(f"{one['source']} {one['name']}", {}).update(one)
    counts = []
    for label in labels:
        kinds = [_kind(row[label]) for row in found.values() if label in row]
        passed = sum(kind not in ("as before", "fails") for kind in kinds)
        counts.append([label, passed, kinds.count("as before"), kinds.count("fails"), len(kinds)])
    lines = [
        [name, str(row["input"][-1]), *(_kind(row.get(label, "")) for label in labels)]
        for name, row in found.items()
    ]
    notes = [
        [name, label, row[label].partition(": ")[2]]
        for name, row in found.items()
        for label in labels
        if _kind(row.get(label, "")) in ("as before", "fails")
    ]
    advice = [[one["name"], one["message"], ", ".join(one.get("tried", {}))] for one in refused]
    versions = ", ".join(f"{name} {number}" for name, number in report["settings"].items())
    parts = [
        "# Networks with an NRS head",
        f"`{report['command']}`: {len(found)} networks with random weights, two pictures "
        f"({versions}, torch {report['versions']['torch']}). *As before* means that the network "
        "fails without our head too; an empty cell is not measured.",
        table(["what is done", "passes", "fails as before", "fails", "networks"], counts),
        "## Every network",
        table(["network", "side", *labels], lines),
        "`get_classifier` of timm gives the head, or (*inside*) a module that holds it; networks "
        "of torchvision have *none*.",
        "## What failed, and how",
        table(["network", "what", "said"], notes),
        "## Refusals, and their advice",
        "All advice was followed; each time the network had five classes.",
        table(["network", "said", "tried"], advice),
    ]
    return "\n\n".join(parts) + "\n"


def _kind(said: str) -> str:
    """In a word what a cell says."""
    words = {"inside": "inside", "the network": "none", "as before": "as before", "fails": "fails"}
    return next((word for start, word in words.items() if said.startswith(start)), said)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path, nargs="?")
    parser.add_argument("--page", type=Path, help="where to write the table, in markdown")
    parser.add_argument("--show", action="store_true", help="measure nothing")
    parser.add_argument("--refusals", action="store_true", help="only those, printed")
    arguments = parser.parse_args()
    if arguments.refusals:
        for name in REFUSED:
            print(name, refusal(name))
        return
    versions = {name: version(name) for name in ("timm", "torchvision", "onnxruntime")}
    if not arguments.show:
        measure_cells(arguments.output, plan(), here, **versions)
    shown = page(json.loads(arguments.output.read_text(encoding="utf-8")))
    print(shown)
    if arguments.page:
        arguments.page.write_text(shown, encoding="utf-8")


if __name__ == "__main__":
    main()
