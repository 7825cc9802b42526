"""What every test may ask for."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# Read when the libraries are first imported, so set before any test is: nothing is asked of a hub, and importing
# ir_datasets leaves no folder in the user's home.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("IR_DATASETS_HOME", tempfile.mkdtemp(prefix="ragbench-test-ir-"))
os.environ.setdefault("HF_DATASETS_CACHE", tempfile.mkdtemp(prefix="ragbench-test-hf-"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real collections beside the checkout; it is not part of the project."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs the real collections in ../shared/data, which are not part of the project")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    """No test reads or writes the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGBENCH_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield
