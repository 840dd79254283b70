# nrs serve with CPU-only dependencies:
#   docker build -t nrs .
#   docker run -p 8000:8000 -v $PWD/model.safetensors:/model.safetensors:ro nrs
ARG PYTHON=3.11-slim

FROM python:${PYTHON} AS build
# The wheel for CPUs; torch's default one brings gigabytes for GPUs.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN apt-get update && apt-get install -y --no-install-recommends g++ \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /nrs
COPY pyproject.toml hatch_build.py constraints.txt README.md LICENSE ./
COPY src src
RUN python -m venv /opt/nrs \
    && /opt/nrs/bin/pip install --no-cache-dir -c constraints.txt --index-url ${TORCH_INDEX} torch \
    && /opt/nrs/bin/pip install --no-cache-dir -c constraints.txt ".[serve]"

FROM python:${PYTHON}
# torch computes with the OpenMP of GCC.
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/* && useradd --no-create-home nrs
COPY --from=build /opt/nrs /opt/nrs
USER nrs
ENV OMP_NUM_THREADS=1
EXPOSE 8000
HEALTHCHECK CMD ["/opt/nrs/bin/python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
ENTRYPOINT ["/opt/nrs/bin/nrs", "serve"]
CMD ["/model.safetensors", "--host", "0.0.0.0", "--port", "8000"]
