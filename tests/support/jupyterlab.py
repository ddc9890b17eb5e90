"""JupyterLab itself in a browser: a server of its own, notebooks run cell by cell."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

from support import ROOT

BINDER = ROOT / "binder"
READY = """() => {
  const panel = window.jupyterapp && window.jupyterapp.shell.currentWidget;
  if (!panel || !panel.context || !panel.context.isReady || !panel.content.widgets.length) return false;
  const session = panel.context.sessionContext;
  return session.isReady && session.session && session.session.kernel.status === "idle";
}"""
RUN = """async (index) => {
  const app = window.jupyterapp, notebook = app.shell.currentWidget.content;
  notebook.activeCellIndex = index;
  notebook.deselectAll();
  await app.commands.execute("notebook:run-cell");
  const model = notebook.widgets[index].model;
  return model.type === "code" ? model.outputs.toJSON() : [];
}"""


@contextlib.contextmanager
def lab(folder, theme="JupyterLab Light", **environment):
    """Start JupyterLab on a folder and return its address without the path; the whole page is kept in view."""
    for name, chosen in {
        # Cells that scrolled away stay in the page, so that tests find them.
        "notebook-extension/tracker": {"windowingMode": "none"},
        "apputils-extension/themes": {"theme": theme},
        "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    }.items():
        file = folder / ".settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(chosen))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "jupyter",
        "lab",
        "--no-browser",
        "--allow-root",
        "--expose-app-in-browser",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
        "--IdentityProvider.token=test",
        f"--ServerApp.root_dir={folder}",
        "--log-level=ERROR",
    ]
    settings = {
        "JUPYTER_CONFIG_PATH": str(BINDER),  # as make lab and Binder have it
        "JUPYTERLAB_SETTINGS_DIR": str(folder / ".settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / ".spaces"),
    }
    env = {**os.environ, **settings, **{k: str(v) for k, v in environment.items()}}
    server = subprocess.Popen(
        command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(240):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api?token=test", timeout=5).close()
                break
            time.sleep(0.25)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(20)


def visit(page, address, notebook):
    """Open a notebook and wait until its kernel is idle."""
    page.goto(f"{address}/lab/tree/{notebook}?token=test&reset")
    page.wait_for_function(READY, timeout=90_000, polling=300)


def cells(page):
    """Return type, id and source of the cells."""
    return page.evaluate(
        """() => window.jupyterapp.shell.currentWidget.content.widgets.map((w) =>
             ({type: w.model.type, id: w.model.id, source: w.model.sharedModel.getSource()}))"""
    )


def run(page, index):
    """Run one cell and return its outputs; an error in it fails the test."""
    outputs = page.evaluate(RUN, index)
    wrong = [f"{o['ename']}: {o['evalue']}" for o in outputs if o["output_type"] == "error"]
    assert not wrong, (index, wrong)
    return outputs


def live(page, index):
    """Return the live views of a cell, once they are drawn."""
    cell = f".jp-Notebook .jp-Cell >> nth={index}"
    page.wait_for_selector(f"{cell} >> .fl-live", timeout=20_000)
    page.wait_for_function(
        """(i) => [...document.querySelectorAll('.jp-Notebook .jp-Cell')[i].querySelectorAll('.fl-live')]
             .every((v) => v.dataset.drawn || v.querySelector('.fl-canvas').hidden)""",
        arg=index,
    )
    return page.query_selector_all(f"{cell} >> .fl-live")
