# A hospital's machine: the cohort of its recordings lies in /data, and what it keeps stays there.
# Build from the repository's root:  docker build -f containers/site.Dockerfile -t ecgfed-site .
# Never built by us: no Docker was at hand. A test compares every command and option here with the command line.
FROM docker.io/library/python:3.11-slim

# The versions this repository is tested with, every file by its SHA-256; torch's CPU build has an index of its own.
COPY constraints/lock-flower.txt constraints/lock-cpu.txt /build/constraints/
RUN python -m pip install --no-cache-dir --disable-pip-version-check \
      --extra-index-url https://download.pytorch.org/whl/cpu \
      --require-hashes -r /build/constraints/lock-flower.txt -r /build/constraints/lock-cpu.txt

COPY pyproject.toml README.md LICENSE /build/
COPY ecgfed /build/ecgfed
COPY cli /build/cli
RUN python -m pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation /build \
 && rm -r /build \
 && mkdir -p /data /handover \
 && chown 10001:10001 /data /handover

USER 10001:10001
ENV HOME=/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
VOLUME ["/data"]
ENTRYPOINT ["ecgfed"]
CMD ["federate", "site", "/data/site", "--cohort", "/data/cohort", "--server", "server:9092", "--ca", "/handover/ca.crt"]
