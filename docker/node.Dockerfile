# A node of a Ray cluster, and its head; docs/cluster.md has the commands that start both.
#   docker build -f docker/node.Dockerfile -t tff-keyboard-node .
FROM python:3.11.7-slim-bookworm AS build
# The user cannot keep bytecode: each start would compile four thousand modules.
ENV UV_COMPILE_BYTECODE=1
ENV UV_NO_CACHE=1 UV_NO_CONFIG=1 UV_PYTHON_DOWNLOADS=never VIRTUAL_ENV=/opt/venv
WORKDIR /source
COPY requirements-cluster.txt requirements-uv.txt ./
RUN pip install --no-cache-dir --no-deps --require-hashes -r requirements-uv.txt \
    && uv venv /opt/venv \
    && uv pip install --no-deps --require-hashes -r requirements-cluster.txt
COPY pyproject.toml setup.py README.md LICENSE ./
COPY configs configs
COPY models models
COPY tasks tasks
COPY tff_keyboard tff_keyboard
COPY tflite_export tflite_export
RUN uv pip install --no-deps --no-build-isolation .

FROM python:3.11.7-slim-bookworm
COPY --from=build /opt/venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH HOME=/tmp
USER 1000:1000
WORKDIR /runs
CMD ["ray", "--help"]
