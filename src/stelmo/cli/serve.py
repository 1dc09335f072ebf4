"""`stelmo serve`: a model → an HTTP service."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stelmo.cli.arguments import LOAD, Device, ModelName, Precision, StartState, Threads, label_of, loaded, refuse_carry
from stelmo.config import choose, help_of, parse
from stelmo.errors import ConfigError
from stelmo.settings import ServeSettings

if TYPE_CHECKING:
    from stelmo.serve.gate import LogFormat

EXAMPLE = (
    'Example: `stelmo serve --port 8000`, then `curl localhost:8000/v1/tokenize --json \'{"text": "Stocks fell."}\'`'
)
DEFAULT = ServeSettings()
LOG_FORMATS: "dict[str, LogFormat | None]" = {"text": "text", "json": "json", "off": None}
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(?:\[[0-9a-f:.]+\]|[^\[\]:/?#@\sA-Z]+)(?::\d{1,5})?")


def _limit(name: str) -> Any:
    return typer.Option(help=help_of(ServeSettings, name), rich_help_panel="Limits")


def serve(
    name: ModelName = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any address that others can reach requires a token.")
    ] = ("127.0.0.1"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any free one.")] = 8000,
    index: Annotated[Path | None, typer.Option(help="Index of word uses made by `stelmo index`.")] = None,
    task: Annotated[
        list[Path] | None, typer.Option(help="Run of `stelmo task` whose layer weights to show; repeatable.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="File whose first line every request must send: Authorization: Bearer …")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Accept requests from other machines without a token.")] = False,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(help="Origin of a web page that may send requests, such as https://example.org; repeatable."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Additional host name that requests may use, such as that of a reverse proxy; repeatable.",
        ),
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="Language of raw text, such as en, de, zh; default: that of the index, or en.")
    ] = None,
    contractions: Annotated[
        str | None, typer.Option(help="ptb: do n't; moses: don 't; default: as in the index, or ptb.")
    ] = None,
    access_log: Annotated[str, typer.Option(help="Line per request on standard error: text, json, or off.")] = "text",
    state: StartState = None,
    precision: Precision = LOAD.precision,
    device: Device = LOAD.device,
    threads: Threads = LOAD.threads,
    body_bytes: Annotated[int, _limit("body_bytes")] = DEFAULT.body_bytes,
    body_seconds: Annotated[float, _limit("body_seconds")] = DEFAULT.body_seconds,
    header_seconds: Annotated[float, _limit("header_seconds")] = DEFAULT.header_seconds,
    connections: Annotated[int, _limit("connections")] = DEFAULT.connections,
    sentences: Annotated[int, _limit("sentences")] = DEFAULT.sentences,
    sentence_tokens: Annotated[int, _limit("sentence_tokens")] = DEFAULT.sentence_tokens,
    tokens: Annotated[int, _limit("tokens")] = DEFAULT.tokens,
    token_characters: Annotated[int, _limit("token_characters")] = DEFAULT.token_characters,
    seconds: Annotated[float, _limit("seconds")] = DEFAULT.seconds,
    answers: Annotated[int, _limit("answers")] = DEFAULT.answers,
    uses: Annotated[int, _limit("uses")] = DEFAULT.uses,
    requests: Annotated[int, _limit("requests")] = DEFAULT.requests,
    queue_tokens: Annotated[int, _limit("queue_tokens")] = DEFAULT.queue_tokens,
    batch_tokens: Annotated[int, _limit("batch_tokens")] = DEFAULT.batch_tokens,
    batch_wait: Annotated[float, _limit("batch_wait")] = DEFAULT.batch_wait,
    jobs: Annotated[int, _limit("jobs")] = DEFAULT.jobs,
) -> None:
    """Serve a model over HTTP until Ctrl-C; docs/service.md describes the routes."""
    limits = {limit: value for limit, value in locals().items() if limit in ServeSettings.model_fields}
    settings = parse(ServeSettings, limits, "serve", ConfigError)
    refuse_carry(state)
    choose("--access-log", access_log, tuple(LOG_FORMATS))
    for origin in allow_origin or ():
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            raise ConfigError(
                f"--allow-origin {origin}: not an origin; expected scheme://host or scheme://host:port in lower case, "
                "without a path or a final slash, or *"
            )
    try:
        from stelmo.serve import gate, service
        from stelmo.serve.app import app
    except ImportError as problem:  # the libraries of the service are an optional extra
        if problem.name not in ("fastapi", "h11", "prometheus_client", "starlette", "uvicorn"):
            raise
        raise ConfigError(f"the service requires {problem.name}; pip install 'stelmo[serve]'") from None
    from stelmo.explore.index import Rules
    from stelmo.explore.index import open as open_index

    secret = None if token_file is None else service.read_token(token_file)
    exposed = not service.is_loopback(host)
    if exposed and secret is None and not open_:
        raise ConfigError(f"--host {host} can be reached by others; give --token-file, or allow everyone with --open")
    hosts = [gate.host_of(given) for given in (allow_host or ())]
    for given, found in zip(allow_host or (), hosts, strict=True):
        if found is None:
            raise ConfigError(
                f"--allow-host {given}: not a host name; expected one such as example.org, without scheme"
            )
    opened = None if index is None else open_index(index)
    if opened is not None and (language is not None or contractions is not None):
        raise ConfigError(
            "--language and --contractions: a service with an index tokenises as the index does "
            f"(language {opened.rules.language}, contractions {opened.rules.contractions}); leave them out"
        )
    rules = Rules(language or "en", contractions or "ptb") if opened is None else opened.rules
    model = loaded(name, state=state, precision=precision, device=device, threads=threads)
    made = app(
        model,
        settings,
        opened,
        service.read_tasks(task or ()),
        name=label_of(name),
        rules=rules,
        token=secret,
        origins=allow_origin or (),
        hosts=None if exposed and not hosts else (*gate.LOOPBACK, host.lower(), *filter(None, hosts)),
        access_log=LOG_FORMATS[access_log],
    )
    if access_log != "off":
        service.log_to_stderr()
    service.run(made, host, port, lambda address: typer.echo(f"serving on {address}; stop with Ctrl-C"), settings)
