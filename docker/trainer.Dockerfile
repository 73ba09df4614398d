# A machine that trains, evaluates and exports. From the root of the checkout:
#   docker build -f docker/trainer.Dockerfile -t tff-keyboard .
#   docker run --rm -v "$PWD/data:/data:ro" -v "$PWD/runs:/runs" tff-keyboard \
#     train --store=/data/mine --workdir=/runs/mine
# /runs must be writable for user 1000. Nothing listens.
FROM python:3.11.7-slim-bookworm AS build
# The user cannot keep bytecode: each start would compile four thousand modules.
ENV UV_COMPILE_BYTECODE=1
ENV UV_NO_CACHE=1 UV_NO_CONFIG=1 UV_PYTHON_DOWNLOADS=never VIRTUAL_ENV=/opt/venv
WORKDIR /source
COPY requirements.txt requirements-uv.txt ./
RUN pip install --no-cache-dir --no-deps --require-hashes -r requirements-uv.txt \
    && uv venv /opt/venv \
    && uv pip install --no-deps --require-hashes -r requirements.txt
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
ENTRYPOINT ["tff-keyboard"]
CMD ["--help"]
