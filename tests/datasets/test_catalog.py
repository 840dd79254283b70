import re
from collections import Counter

import pytest

from nrs.datasets import info, names, paper_table, variants_of
from nrs.datasets.catalog import CATALOG
from nrs.datasets.conform import array_names
from nrs.datasets.readers import READERS

# Where the paper's table and the data differ; each is told in the entry's notes.
PRINTED_OTHERWISE = {
    "yeast": {"classes", "n_train", "n_test"},
    "SensIT": {"n_test"},
}
STANDARDISED = {"protein", "pendigits", "poker", "splice", "cod-rna", "SUSY", "phishing"}


def test_the_paper_has_35_tables_in_its_order():
    assert len(paper_table()) == 35
    assert names()[:35] == list(paper_table())


@pytest.mark.parametrize("name", list(paper_table()))
def test_a_table_has_the_numbers_of_the_paper(name):
    entry, row = info(name), paper_table()[name]
    assert entry.paper_row == row
    found = {
        "classes": entry.n_classes,
        "n_train": entry.n_train,
        "n_test": entry.n_test,
        "dim": entry.n_features,
    }
    differing = {key for key, value in found.items() if value != getattr(row, key)}
    assert differing == PRINTED_OTHERWISE.get(name, set())
    if differing:
        assert "paper's table prints" in entry.notes


def test_the_paper_s_preprocessing_is_as_its_authors_did_it():
    found = {name for name in paper_table() if info(name).preprocess == "standardise"}
    assert found == STANDARDISED


@pytest.mark.parametrize("name", names())
def test_an_entry_is_well_formed(name):
    entry = info(name)
    assert entry.name == name
    assert entry.title
    assert entry.licence
    assert re.match(r"https?://\w", entry.page)
    assert entry.files
    assert all(re.fullmatch(r"[\w.-]+", file) for file in entry.files)
    assert set(entry.rows) in ({"all"}, {"train", "test"}, {"train", "val", "test"})
    assert all(n > 0 for n in entry.rows.values())
    # A random split may join official parts, but then none is left for validation.
    assert entry.split == "official" or "val" not in entry.rows
    assert (entry.n_classes is None) == (entry.task == "regression")
    assert entry.n_train + entry.n_val + entry.n_test == sum(entry.rows.values())
    assert set(entry.arrays) <= set(array_names(entry))
    assert entry.layout == "files" or (entry.shape and all(n > 0 for n in entry.shape))
    assert entry.variant_of is None or CATALOG[entry.variant_of].variant_of is None
    if entry.columns is not None:
        start, stop, stored = entry.columns
        assert 0 <= start < stop <= stored
        assert stop - start == entry.n_features


@pytest.mark.parametrize("name", names())
def test_the_sources_of_an_entry_are_well_formed(name):
    entry = info(name)
    for source in entry.sources:
        assert source.format in (READERS if entry.layout == "arrays" else ("files",))
        assert source.url is None or re.fullmatch(r"https?://\S+", source.url)
        assert source.url is None or not entry.package
        pattern = r"sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}"
        assert source.checksum is None or re.fullmatch(pattern, source.checksum)
        # A file that travels in the clear must be checked on arrival.
        assert source.url is None or source.url.startswith("https://") or source.checksum
        assert source.size is None or source.size <= entry.limit(source)
        assert entry.n_folds == 0 or all("{fold}" in member for member in source.members)
    if entry.layout == "arrays" and entry.sources:
        parts = {source.part for source in entry.sources}
        assert parts == set(entry.rows) or entry.arrays


def test_names_and_aliases_are_unique():
    plain = [
        name.lower().replace("_", "-")
        for entry in CATALOG.values()
        for name in (entry.name, *entry.aliases)
    ]
    assert [name for name, count in Counter(plain).items() if count > 1] == []


def test_local_files_are_those_of_one_dataset():
    owners = {}
    for entry in CATALOG.values():
        for file in entry.files:
            owners.setdefault(file.lower(), set()).add(entry.variant_of or entry.name)
    shared = {file: owner for file, owner in owners.items() if len(owner) > 1}
    # A folder of meshes and a file of clouds, which differ by their ending.
    assert set(shared) <= {"modelnet10", "modelnet40"}


@pytest.mark.parametrize("name", ["MSLR-WEB10K", "MSLR-WEB30K", "MQ2008", "CIFAR-100"])
@pytest.mark.parametrize("change", [str.lower, str.upper, lambda name: name.replace("-", "_")])
def test_spelling_does_not_matter(name, change):
    assert info(change(name)).name == name


@pytest.mark.parametrize(
    ("name", "file", "rows", "n_features"),
    [
        ("yeast", "yeast_uci", {"all": 1484}, 8),
        ("susy_30k", "susy_30k", {"all": 30000}, 18),
        ("protein_val", "protein_val", {"all": 2871}, 357),
        ("sarcos_test", "sarcos_test", {"all": 4449}, 21),
        ("ijcnn1-val", "ijcnn1", {"train": 35000, "test": 14990}, 22),
        ("poker-train", "poker", {"all": 25010}, 10),
        ("cod-rna-train", "cod-rna", {"all": 59535}, 8),
        ("breast-cancer-noid", "breast-cancer", {"all": 683}, 9),
        ("connect-4-raw", "connect-4", {"all": 67557}, 42),
        ("covtype-7", "covtype", {"all": 581012}, 54),
        ("covtype-tenth", "covtype", {"all": 581012}, 54),
        ("MNIST-784", "mnist", {"train": 60000, "test": 10000}, 784),
        ("MNIST-tenth", "mnist", {"train": 60000, "test": 10000}, 780),
    ],
)
def test_variants_have_their_own_sizes(name, file, rows, n_features):
    entry = info(name)
    assert (file in entry.files, entry.rows, entry.n_features) == (True, rows, n_features)
    assert name == "yeast" or entry in variants_of(entry.variant_of)


def test_an_unknown_name_suggests_others():
    with pytest.raises(ValueError, match=r"name='leter'; did you mean 'letter'"):
        info("leter")
    with pytest.raises(ValueError, match="names\\(\\) lists them"):
        info("qqqqqqqq")
    with pytest.raises(TypeError, match="int"):
        info(3)
