# The federation's server: it needs no recordings; what it keeps stays in /data, and it listens at 9092.
# Build from the repository's root:  docker build -f containers/server.Dockerfile -t ecgfed-server .
# Never built by us: no Docker was at hand. A test compares every command and option here with the command line.
FROM docker.io/library/python:3.11-slim

# The versions this repository is tested with, every file by its SHA-256; torch's CPU build has an index of its own.
COPY constraints/lock-flower.txt constraints/lock-cpu.txt /build/constraints/
RUN python -m pip install --no-cache-dir --disable-pip-version-check \
      --extra-index-url https://download.pytorch.org/whl/cpu \
      --require-hashes -r /build/constraints/lock-flower.txt -r /build/constraints/lock-cpu.txt

# HAProxy stands before Flower's SuperLink (docs/hospitals.md#haproxy)
RUN apt-get update \
 && apt-get install -y --no-install-recommends haproxy \
 && rm -rf /var/lib/apt/lists/*

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
EXPOSE 9092
ENTRYPOINT ["ecgfed"]
CMD ["federate", "server", "/data/server", "--sites", "3", "--keys", "/handover/keys"]
