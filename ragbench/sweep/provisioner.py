"""Kernels that are forks: what jupyter_client asks for a kernel whose kernel.json names this provisioner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.local_provisioner import LocalProvisioner
from traitlets import Unicode

from ragbench.sweep.forks import ForkedProcess


class ForkProvisioner(LocalProvisioner):
    """Starts a kernel as a fork of the server in `folder`; all else is as with any local kernel."""

    process: ForkedProcess | None  # type: ignore[assignment]
    folder = Unicode(config=True)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Fork the kernel that `cmd`, "python -m ipykernel_launcher ...", would start."""
        cwd = str(kwargs.get("cwd") or Path.cwd())
        arguments = cmd[cmd.index("ipykernel_launcher") + 1 :]
        self.process = ForkedProcess(Path(self.folder), "kernel", arguments, kwargs["env"], cwd=cwd, output=1)
        self.pid = self.process.pid
        self.cwd = cwd
        return self.connection_info
