"""A papermill engine that runs the cells in this process: `papermill in.ipynb out.ipynb --engine
ragbench`.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

from ipykernel.inprocess.ipkernel import InProcessInteractiveShell, InProcessKernel
from ipykernel.inprocess.manager import InProcessKernelManager
from ipykernel.iostream import OutStream
from nbclient.client import timestamp
from nbclient.exceptions import CellExecutionComplete, CellExecutionError
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import Engine, NotebookExecutionManager
from traitlets.config import Config

from ragbench.errors import one_line_warnings

NAME = "ragbench"

_WRITE_EVERY_S = 3.0

# Runs side by side would wait for each other's turn at the history of what users type.
_CONFIG = Config({"HistoryManager": {"enabled": False}})


class InProcessEngine(Engine):  # type: ignore[misc]
    """Runs a notebook without a kernel's process; its outputs are the same as an ordinary kernel's.

    The process takes on the state that cells leave (modules, working folder, settings), so it is
    for one notebook.
    """

    @classmethod
    def execute_managed_notebook(
        cls,
        nb_man: NotebookExecutionManager,
        kernel_name: str,
        *,
        log_output: bool = False,
        started: Callable[[Callable[[], None]], None] = lambda write: None,
        **_: Any,
    ) -> None:
        """Run the cells of a notebook, up to the first that raises an error. papermill calls this.

        papermill would write the notebook before and after each cell, which takes time; here it is
        written every few seconds, and at the end.

        Args:
            nb_man: the notebook, and the functions by which papermill follows its execution.
            started: is called first, with a function that writes the notebook as it is.
        """
        one_line_warnings()  # a kernel, which imports ragbench after ipykernel, shows them so
        # Outputs arrive in another thread than the main one, and both write. The lock is one that its
        # thread may take again: papermill also writes while it adds an output.
        lock = threading.RLock()
        save = nb_man.save

        def write(**options: Any) -> None:
            with lock:
                save(**options)

        nb_man.save = _at_intervals(write)
        started(write)
        # "" lets cells import modules next to the notebook, which Python's safe path forbids
        if os.environ.get("PYTHONSAFEPATH"):
            sys.path[:] = filter(None, sys.path)
        elif "" not in sys.path:
            sys.path.insert(0, "")
        manager: Any = InProcessKernelManager(config=_CONFIG)
        manager.kernel = _Kernel.instance(parent=manager, session=manager.session)
        stdout, stderr = _replace_streams(manager)
        try:
            with redirect_stdout(stdout), redirect_stderr(stderr):
                _Cells(nb_man, km=manager, log_output=log_output).run(lock)
        finally:
            write()
            stdout.close()
            stderr.close()
            manager.shutdown_kernel()
            _Kernel.clear_instance()
            InProcessInteractiveShell.clear_instance()


def _replace_streams(manager: Any) -> tuple[Any, Any]:
    """Give the kernel of a manager streams that make outputs of texts, also of those that bypass
    Python's streams, as from another program that a cell starts; return its stdout and stderr.
    """
    kernel = manager.kernel
    stream: Any = partial(OutStream, manager.session, kernel.iopub_thread, watchfd=True)
    kernel.stdout = stream("stdout")
    kernel.stderr = stream("stderr")
    return kernel.stdout, kernel.stderr


def _at_intervals(write: Callable[..., None]) -> Callable[..., None]:
    """Return a function that calls `write` at most once in `_WRITE_EVERY_S` seconds; calls in between do
    nothing.
    """
    last_write = time.monotonic()  # so that nothing is written at the start

    def write_sometimes(**options: Any) -> None:
        nonlocal last_write
        if time.monotonic() - last_write > _WRITE_EVERY_S:
            write(**options)
            last_write = time.monotonic()

    return write_sometimes


class _Kernel(InProcessKernel):
    async def do_execute(self, *args: Any, **options: Any) -> Any:
        # ipykernel 7 asks it which thread Ctrl-C interrupts, where a cell awaits something.
        self.shell_channel_thread = SimpleNamespace(parent_thread=None)
        try:
            return await super().do_execute(*args, **options)  # type: ignore[no-untyped-call]
        finally:
            self.shell_channel_thread = None


class _Cells(PapermillNotebookClient):  # type: ignore[misc]
    """Executes cells one after the other; papermill reads their messages like the messages of any
    kernel.
    """

    def run(self, lock: AbstractContextManager[bool]) -> None:
        """Execute all cells of the notebook; outputs are added to it while `lock` is held."""
        self.lock = lock
        self.reset_execution_trackers()
        # id of the message that asked for the execution of a cell -> the cell and its number
        self.cells: dict[str, tuple[Any, int]] = {}
        self.kc = self.km.client()
        self.kc.allow_stdin = False
        self.kc.start_channels()
        self.papermill_execute_cells()
        self.nb.metadata["language_info"] = self.km.kernel.language_info
        self.set_widgets_metadata()

    def execute_cell(self, cell: Any, cell_index: int) -> Any:
        """Execute a cell of code, put its outputs into it, and return it; cells of other kinds, empty
        cells and cells with the tag to skip are returned as they are.

        Raises:
            CellExecutionError: the cell failed, and has no tag "raises-exception".
        """
        tags = cell.metadata.get("tags", [])
        if cell.cell_type != "code" or not cell.source.strip() or self.skip_cells_with_tag in tags:
            return cell
        cell.metadata["execution"] = {}
        cell.outputs = []
        self.clear_before_next_output = False

        def receive(message: dict[str, Any]) -> None:
            """Put an output (or the number of the execution) into the cell whose request it answers.

            This is an earlier cell than the one at work if a thread that it started still prints.
            """
            request_id = message["parent_header"].get("msg_id")
            if request_id:
                # the first message of a request comes while its cell is at work
                output_cell, index = self.cells.setdefault(request_id, (cell, cell_index))
                # the exception is raised when the cell has ended
                with self.lock, suppress(CellExecutionComplete):
                    self.process_message(message, output_cell, index)

        # it is called in the kernel's thread for output, while the cell runs
        self.kc.iopub_channel.call_handlers = receive
        self.kc.execute(cell.source)  # returns when the cell has ended
        message = self.kc.get_shell_msg()
        reply = message["content"]
        cell.metadata["execution"]["shell.execute_reply"] = timestamp(message)
        if reply["status"] == "error" and "raises-exception" not in tags:
            raise CellExecutionError.from_cell_and_msg(cell, reply)
        return cell
