"""An index and its model → the explorer page in a browser. Knows no terminal."""

import threading
import webbrowser
from collections.abc import Iterable
from pathlib import Path

from stelmo.embed.model import Model
from stelmo.explore.index import Index
from stelmo.serve import service
from stelmo.serve.app import app
from stelmo.settings import ServeSettings


def run(
    index: Index,
    model: Model,
    tasks: Iterable[str | Path] = (),
    *,
    name: str = "english",
    credit: str = "",
    port: int = 8765,
    open_browser: bool = True,
    started: service.Started = lambda address: None,
    settings: ServeSettings | None = None,
) -> None:
    """Serve the page to this machine until Ctrl-C. `tasks` are run folders whose layer weights the page shows."""

    def tell(address: str) -> None:
        started(address)
        if open_browser:
            threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()  # the server must not wait

    made = app(model, settings, index, service.read_tasks(tasks), name=name, credit=credit)
    service.run(made, "127.0.0.1", port, tell, settings)
