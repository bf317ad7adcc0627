# Two images: `worker` (the default) and `beanstalkd`, of which no official image exists.
# `demo` is not offered in them: the servers it needs are for development (docs/decisions/0002).
# 3.11 is the interpreter the tests run on; every locked wheel also exists for newer ones.
ARG PYTHON=3.11
ARG DEBIAN=bookworm


# Debian 12 packages 1.12, the version whose durability docs/decisions/0001 counts on.
FROM debian:${DEBIAN}-slim AS beanstalkd
RUN apt-get update \
 && apt-get install --yes --no-install-recommends beanstalkd \
 && rm -rf /var/lib/apt/lists/* \
 && install --directory --owner=10002 --group=10002 --mode=0700 /data
# A new named volume takes over owner and mode of /data, so the binlog is writable without root.
USER 10002:10002
EXPOSE 11300
STOPSIGNAL SIGTERM
ENTRYPOINT ["beanstalkd"]
CMD ["-l", "0.0.0.0", "-p", "11300", "-b", "/data", "-f", "0", "-z", "1310720"]


FROM python:${PYTHON}-slim-${DEBIAN} AS build
# Where it will be: scripts of an environment name the path of their Python.
WORKDIR /app
COPY requirements.txt ./
# Hashes for every file, and wheels only: no set-up script of a dependency runs here.
RUN python -m venv .venv \
 && .venv/bin/pip install --no-cache-dir --disable-pip-version-check \
      --require-hashes --only-binary :all: -r requirements.txt


FROM python:${PYTHON}-slim-${DEBIAN} AS worker
ENV PATH=/app/.venv/bin:$PATH \
    PYTHONUNBUFFERED=1
WORKDIR /app
COPY --from=build /app/.venv .venv
COPY worker.py config.toml ./
COPY tracking/ tracking/
COPY couriers/ couriers/
COPY limits/ limits/
COPY service/ service/
# A new named volume takes over owner and mode, so a door can write its spool there.
RUN install --directory --owner=10001 --group=10001 --mode=0700 /spool
# Compiled here, because the container's root is read-only; readable whatever the builder's umask.
# The environment is as pip left it: to touch its files would store each of them twice.
RUN chmod -R a+rX worker.py config.toml tracking couriers limits service \
 && python -m compileall -q worker.py tracking couriers limits service \
 && install --mode=0755 service/console/tracker.sh .venv/bin/tracker
ENV PYTHONDONTWRITEBYTECODE=1
# By number: Kubernetes' runAsNonRoot cannot judge a name.
USER 10001:10001
STOPSIGNAL SIGTERM
# It asks the worker itself: an outage of a server must not make every worker unhealthy.
HEALTHCHECK --interval=30s --timeout=10s --start-period=30s --retries=3 \
  CMD ["python", "worker.py", "check", "--worker"]
CMD ["python", "worker.py", "run"]
# At the end, so that another commit builds no layer again. `make image` fills them in.
ARG VERSION=unknown
ARG REVISION=unknown
ARG CREATED=unknown
LABEL org.opencontainers.image.title="courier-tracking" \
      org.opencontainers.image.description="Tracks parcels through couriers' APIs within exact limits" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"
