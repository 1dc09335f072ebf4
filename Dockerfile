# stelmo serve with the bundled English model.
#
#   docker build -t stelmo .
#   docker run --rm -p 127.0.0.1:8000:8000 -v "$PWD/token:/run/secrets/stelmo_token:ro" stelmo
#
# Other models and an index: mount them and add options, for example  stelmo --model /models/mine --index /models/uses

FROM python:3.12-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/stelmo \
 && /opt/stelmo/bin/pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu '.[serve,parquet]'

FROM python:3.12-slim
COPY --from=build /opt/stelmo /opt/stelmo
RUN useradd --system --uid 10001 --create-home stelmo
USER stelmo
WORKDIR /home/stelmo
ENV PATH=/opt/stelmo/bin:$PATH PYTHONUNBUFFERED=1
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["stelmo", "serve", "--host", "0.0.0.0", "--token-file", "/run/secrets/stelmo_token", "--access-log", "json"]
