# The libraries, in a virtual environment that the second stage copies.
FROM python:3.11-slim-trixie AS build
WORKDIR /build
RUN python -m venv /opt/venv
COPY requirements.txt .
RUN /opt/venv/bin/pip install --no-cache-dir --only-binary=:all: -r requirements.txt

FROM python:3.11-slim-trixie
# A number, so that a platform can check that it is not root.
RUN useradd --uid 10001 --no-create-home --home-dir /app --shell /usr/sbin/nologin accounts
WORKDIR /app
COPY --from=build /opt/venv /opt/venv
# Owned by root, so that the service cannot change its own code.
COPY *.py ./
COPY blueprints/ blueprints/
COPY cli/ cli/
COPY config/ config/
COPY core/ core/
COPY database/ database/
COPY migrations/ migrations/
COPY services/ services/
COPY static/ static/
COPY templates/ templates/
COPY web/ web/
# A clone that was made under another umask has files that only its owner can read.
RUN chmod -R go+rX . && install -d -o accounts -g accounts -m 700 /app/instance

# The MALLOC_ variables bound the memory of a worker, as in the Procfile.
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    MALLOC_ARENA_MAX=2 \
    MALLOC_MMAP_THRESHOLD_=131072 \
    PORT=8000
USER 10001
EXPOSE 8000
# The embedded database and its secret, if DATABASE_URL is not set.
VOLUME /app/instance
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s CMD ["python", "healthcheck.py"]
CMD ["python", "-m", "config", "gunicorn"]
