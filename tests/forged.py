"""Forged files of one model, loaded one after the other; the grammar is that of the fuzzer."""

from benchmarks.fuzz.forged import forged_headers, forged_tensors, put, signed
from benchmarks.fuzz.models import check_file
from benchmarks.fuzz.run import peak_memory

MAX_MEMORY = 150 << 20


def check_forged(path, one):
    """Load every file that one change makes of a specimen; most must be refused."""
    path.write_bytes(one.content)
    # What is imported and kept by a first call is not the file's doing.
    assert check_file(path, one) == "files loaded"
    before, found = peak_memory(), []
    for header in forged_headers(one.file.header):
        path.write_bytes(signed(one.facts | {"header": header}, one.file.tensors))
        found.append(check_file(path, one))
    for tensors in forged_tensors(one.file.tensors):
        path.write_bytes(signed(one.facts, tensors))
        found.append(check_file(path, one))
    assert peak_memory() - before < MAX_MEMORY
    assert found.count("files refused") > len(found) / 2


def load_forged(path, one, place=(), value=None, *, header=None, tensors=None):
    """Load a specimen with another value in its header, another header, or other tensors."""
    facts = one.facts | {"header": header or one.file.header}
    facts = put(facts, ("header", *place), value) if place else facts
    path.write_bytes(signed(facts, one.file.tensors | (tensors or {})))
    return one.load(path)
