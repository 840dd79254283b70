"""The table of the engine's benchmark."""

from benchmarks import engine


def cell(name, method, seconds, loss):
    times = dict.fromkeys(("fit_cpu_s", "predict_cpu_s", "one_row_cpu_s"), seconds)
    return {"set": name, "method": method, "log_loss": loss} | times


def test_times_are_ratios_to_the_engine_and_their_median_is_over_tables():
    cells = [
        *[cell("german", "compiled", seconds, 0.5) for seconds in (1.0, 2.0, 9.0)],
        cell("german", "torch", 8.0, 0.6),
        cell("dna", "compiled", 1.0, 0.1),
        cell("dna", "torch", 2.0, 0.2),
    ]
    heads, _, german, dna, median = engine.summary(cells).splitlines()
    place = [head.strip() for head in heads.split("|")].index("fit: torch")
    shown = [[entry.strip() for entry in line.split("|")] for line in (german, dna, median)]
    assert [line[place] for line in shown] == ["4", "2", "3"]
    assert shown[0][2] == "2"
    assert [line[-7:-5] for line in shown[:2]] == [["0.5", "0.6"], ["0.1", "0.2"]]
