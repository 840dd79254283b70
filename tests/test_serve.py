"""A model behind HTTP: the answers of the model itself, and a status for everything else."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import time
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest
from fastapi.testclient import TestClient

import nrs.serve
from nrs import NRSClassifier, NRSRanker, NRSRegressor
from nrs.serve import ARROW, Limits, create_app
from nrs.tabular.predict_file import predict_chunks
from tests.threads import in_threads


def rows_of(n, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    return frame.assign(kind=rng.choice(["x", "y", "z"], n))


def fit(estimator, target, **given):
    frame = rows_of(150)
    return estimator.set_params(preset="fast", epochs=4, random_state=0).fit(
        frame, target(frame), **given
    )


@pytest.fixture(scope="module")
def classifier():
    return fit(NRSClassifier(), lambda frame: np.where(frame["a"] > 0, "yes", "no"))


def body_of(frame):
    return {"rows": frame.to_dict("records")}


def arrow_of(frame):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def expected(model, frame, tmp_path, **options):
    """What ``nrs predict`` writes for the rows."""
    path = tmp_path / "rows.arrow"
    pa.feather.write_feather(pa.Table.from_pandas(frame, preserve_index=False), path)
    return pa.concat_tables(predict_chunks(model, path, **options)).to_pylist()


MODELS = {
    "numbers": lambda: fit(NRSRegressor(), lambda frame: frame["a"] * frame["b"]),
    "quantiles": lambda: fit(NRSRegressor(quantiles=(0.1, 0.5, 0.9)), lambda frame: frame["a"]),
    "several numbers": lambda: fit(NRSRegressor(), lambda frame: frame[["a", "b"]].to_numpy()),
    "labels": lambda: fit(NRSClassifier(), lambda frame: (frame[["a", "b"]] > 0).to_numpy()),
    "columns": lambda: fit(
        NRSClassifier(), lambda frame: np.array([frame["kind"], frame["a"].round()], object).T
    ),
    "single": lambda: NRSClassifier(preset="single", epochs=3, random_state=0).fit(
        rows_of(150), rows_of(150)["a"] > 0
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_answers_are_those_of_nrs_predict(name, tmp_path):
    model, frame = MODELS[name](), rows_of(20, seed=1)
    probabilities = hasattr(model, "predict_proba")
    wanted = expected(model, frame, tmp_path, probabilities=probabilities)
    with TestClient(create_app(model)) as client:
        answer = client.post("/predict", json=body_of(frame))
        assert answer.status_code == 200, answer.text
        assert answer.json()["predictions"] == wanted
        headers = {"content-type": ARROW}
        answer = client.post("/predict", content=arrow_of(frame), headers=headers)
        assert answer.headers["content-type"] == ARROW
        assert pa.ipc.open_stream(answer.content).read_all().to_pylist() == wanted
        described = client.get("/openapi.json").json()["paths"]["/predict"]["post"]
        schema = described["responses"]["200"]["content"]["application/json"]["schema"]
        row = schema["properties"]["predictions"]["items"]["properties"]
        names = {"string": str, "number": float, "integer": int, "boolean": bool}
        assert {name: names[cell["type"]] for name, cell in row.items()} == {
            name: type(value) for name, value in wanted[0].items()
        }


def test_a_model_with_an_offset_reads_its_column(tmp_path):
    model = fit(
        NRSRegressor(loss="poisson"), lambda frame: frame["a"].abs().round(), offset=np.zeros(150)
    )
    model.about_ = {"offset": "exposure"}
    frame = rows_of(5, seed=1).assign(exposure=[0.0, 1.0, 2.0, 0.5, -1.0])
    with TestClient(create_app(model)) as client:
        answer = client.post("/predict", json=body_of(frame)).json()
        assert answer["predictions"] == expected(model, frame, tmp_path)
        refused = client.post("/predict", json=body_of(frame.drop(columns="exposure")))
        assert refused.json() == {"detail": "rows.0.exposure: Field required"}


def test_a_ranker_scores_documents(tmp_path):
    frame = rows_of(120).assign(query=np.repeat(np.arange(12), 10))
    model = NRSRanker(epochs=3, random_state=0, query_scale="standard").fit(
        frame, frame["a"].round().clip(0, 2), qid="query"
    )
    some = frame[:30]
    with TestClient(create_app(model)) as client:
        answer = client.post("/predict", json=body_of(some)).json()
        assert answer["predictions"] == expected(model, some, tmp_path)


def test_options_are_those_of_nrs_predict(classifier, tmp_path):
    frame = rows_of(20, seed=1)
    number = MODELS["numbers"]()
    with TestClient(create_app(number)) as client:
        answer = client.post("/predict?interval=0.8", json=body_of(frame)).json()
        assert answer["predictions"] == expected(number, frame, tmp_path, interval=0.8)
        assert client.post("/predict?sets=0.8", json=body_of(frame)).status_code == 422
    with TestClient(create_app(classifier)) as client:
        answer = client.post("/predict?sets=0.8", json=body_of(frame)).json()
        wanted = expected(classifier, frame, tmp_path, probabilities=True, sets=0.8)
        assert answer["predictions"] == wanted
        answer = client.post("/predict?probabilities=false", json=body_of(frame)).json()
        assert list(answer["predictions"][0]) == ["prediction"]
        for query in ("interval=0.8", "sets=1", "sets=nan", "sets=x"):
            refused = client.post(f"/predict?{query}", json=body_of(frame))
            assert refused.status_code == 422
            assert isinstance(refused.json()["detail"], str)
        accept = {"accept": ARROW}
        answer = client.post("/predict", json=body_of(frame), headers=accept)
        assert pa.ipc.open_stream(answer.content).read_all().num_rows == 20


def test_many_threads_get_what_one_gets(classifier):
    frames = [rows_of(1 + number, seed=number) for number in range(8)]
    with TestClient(create_app(classifier)) as client:
        alone = [client.post("/predict", json=body_of(frame)).json() for frame in frames]

        def work(number):
            return [client.post("/predict", json=body_of(frames[number])).json() for _ in range(5)]

        for number, answers in enumerate(in_threads(8, work)):
            assert answers == [alone[number]] * 5
        shown = client.get("/metrics").text
    assert 'nrs_requests_total{status="200"} 48.0' in shown
    assert f"nrs_rows_total {6 * sum(map(len, frames))}.0" in shown
    assert "nrs_requests_waiting 0.0" in shown


def test_metrics_count_refusals_and_unusual_cells(classifier):
    frame = rows_of(2)
    frame.loc[0, "a"], frame.loc[1, "kind"] = 1e6, "never seen"
    with TestClient(create_app(classifier)) as client:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert client.post("/predict", json=body_of(frame)).status_code == 200
        client.post("/predict", json={"rows": [{"a": 1}]})
        shown = client.get("/metrics").text
    assert 'nrs_unusual_cells_total{column="a",what="far"} 1.0' in shown
    assert 'nrs_unusual_cells_total{column="kind",what="unknown"} 1.0' in shown
    assert 'nrs_requests_total{status="422"} 1.0' in shown


def test_limits_have_a_status_each(classifier):
    limits = Limits(max_bytes=2000, max_rows=10, max_waiting=1)
    with TestClient(create_app(classifier, limits)) as client:
        many = client.post("/predict", content=b" " * 2001)
        assert (many.status_code, many.json()["detail"]) == (
            413, "a body may have 2,000 bytes; send several requests",
        )  # fmt: skip
        chunks = client.post("/predict", content=iter([b" " * 1500, b" " * 1500]))
        assert chunks.status_code == 413
        rows = client.post("/predict", json={"rows": [{}] * 11})
        assert (rows.status_code, rows.json()["detail"]) == (
            422, "rows.0.a: Field required",
        )  # fmt: skip
        rows = client.post("/predict", json={"rows": [{"a": 1, "b": 1, "kind": ""}] * 11})
        assert rows.status_code == 413
        form = client.post("/predict", content=b"a", headers={"content-type": "text/plain"})
        assert form.status_code == 415
    for name in ("max_bytes", "max_rows", "timeout", "max_waiting", "threads"):
        with pytest.raises(ValueError, match=f"{name} must be more than 0; got 0"):
            Limits(**{name: 0})


def test_busy_and_slow_answers_are_503(classifier, monkeypatch):
    limits = Limits(timeout=0.7, max_waiting=2, threads=1)
    forward = classifier.forward

    def slow(features, **options):
        time.sleep(2.0)
        return forward(features, **options)

    monkeypatch.setattr(classifier, "forward", slow)
    with TestClient(create_app(classifier, limits)) as client:
        found = in_threads(6, lambda number: client.post("/predict", json=body_of(rows_of(1))))
    assert {one.status_code for one in found} == {503}
    assert {one.json()["detail"] for one in found} == {
        "no answer within 0.7 s; send fewer rows",
        "too many requests at once; try again",
    }
    assert all(one.headers["retry-after"] == "1" for one in found)


def test_a_defect_is_500_and_the_next_request_is_answered(classifier, monkeypatch):
    app = create_app(classifier)
    with TestClient(app, raise_server_exceptions=False) as client:
        with monkeypatch.context() as patch:
            patch.setattr(nrs.serve, "answer_columns", lambda *_, **__: 1 / 0)
            assert client.post("/predict", json=body_of(rows_of(1))).status_code == 500
        assert client.post("/predict", json=body_of(rows_of(1))).status_code == 200
        assert "nrs_requests_waiting 0.0" in client.get("/metrics").text


@pytest.fixture(scope="module")
def address(classifier, tmp_path_factory):
    """Host and port of ``nrs serve`` in a process of its own; it ends by SIGTERM, in order."""
    path = tmp_path_factory.mktemp("served") / "model.safetensors"
    classifier.save(path)
    command = [sys.executable, "-m", "nrs", "serve", path, "--port", "0", "--timeout", "2"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = server.stderr.readline()
    assert said.startswith("serving on http://127.0.0.1:"), said + server.stderr.read()
    found = "127.0.0.1", int(said.partition(";")[0].rpartition(":")[2])
    yield found
    # A request that has begun is answered.
    with socket.create_connection(found) as connection:
        body = json.dumps(body_of(rows_of(1))).encode()
        head = b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body[:9])
        time.sleep(0.1)
        server.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        connection.sendall(body[9:])
        assert b"200 OK" in connection.recv(100_000)
    assert server.wait(10) == 0
    assert server.stdout.read() == "stopped\n"
    assert server.stderr.read() == ""


def test_it_answers_on_a_socket(address, classifier):
    connection = http.client.HTTPConnection(*address)
    frame = rows_of(3)
    for _ in range(2):
        headers = {"content-type": "application/json"}
        connection.request("POST", "/predict", json.dumps(body_of(frame)), headers)
        answer = json.loads(connection.getresponse().read())["predictions"]
        assert [row["probability_yes"] for row in answer] == classifier.predict_proba(frame)[
            :, 1
        ].tolist()
    times = []
    for _ in range(10):
        begin = time.perf_counter()
        connection.request("GET", "/healthz")
        assert json.loads(connection.getresponse().read()) == {"status": "ok"}
        times.append(time.perf_counter() - begin)
    # Where the end of an answer waits for the receipt of its beginning, all take 40 ms.
    assert min(times) < 0.03


def test_a_body_that_does_not_come_is_not_waited_for(address):
    with socket.create_connection(address) as connection:
        connection.sendall(
            b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: 100\r\n\r\n{"
        )
        connection.settimeout(30)
        assert b"408 Request Timeout" in connection.recv(10_000)


def test_an_address_that_is_taken_is_said(address, classifier, tmp_path):
    path = tmp_path / "model.safetensors"
    classifier.save(path)
    with pytest.raises(OSError, match="in use"):
        nrs.serve.serve(path, port=address[1])
