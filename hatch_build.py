"""Build hook: compiles the event stepper with the system's C compiler, or with zig where there is none."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zlib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("src/kapitza/flow/kernel/hybrid.c")

FLAGS = ["-O3", "-std=c11", "-shared", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off"]
"""No flags of one processor, and no fused operations: the numbers are the same on every machine of a kind."""

ZIG_TARGETS = {"linux-x86_64": "x86_64-linux-gnu.2.17", "linux-aarch64": "aarch64-linux-gnu.2.17"}
"""An old C library, so that what zig builds runs on any Linux of the last ten years."""


def library_name() -> str:
    return {"darwin": "hybrid.dylib", "win32": "hybrid.dll"}.get(sys.platform, "hybrid.so")


def candidates() -> list[list[str]]:
    """Commands that may compile C: $CC, then the usual names."""
    named = [shlex.split(os.environ["CC"])] if os.environ.get("CC", "").strip() else []
    return named + [[name] for name in ("cc", "gcc", "clang") if shutil.which(name)]


def compile_with(command: list[str], source: Path, target: Path) -> bool:
    """Compile the stepper; False where the command is missing or fails (a compiler without headers)."""
    libraries = [] if sys.platform == "win32" else ["-lm"]
    version = zlib.crc32(source.read_bytes()) & 0x7FFFFFFF
    try:
        done = subprocess.run(
            [*command, *FLAGS, f"-DKZ_VERSION={version}", "-o", str(target), str(source), *libraries],
            capture_output=True,
        )
    except OSError:
        return False
    return done.returncode == 0 and target.is_file()


def zig_command() -> list[str]:
    target = ZIG_TARGETS.get(sysconfig.get_platform())
    return [sys.executable, "-m", "ziglang", "cc", *(["-target", target] if target else [])]


class KernelHook(BuildHookInterface):
    """Puts the compiled stepper beside its source, and names the platform in the wheel."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """zig, only where no C compiler works: it is 100 MB."""
        with tempfile.TemporaryDirectory() as folder:
            trial = Path(folder) / library_name()
            works = any(compile_with(command, Path(self.root) / SOURCE, trial) for command in candidates())
        return [] if works else ["ziglang>=0.13"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile. Where nothing compiles, the package is built without the stepper and says so."""
        if self.target_name != "wheel":
            return
        source = Path(self.root) / SOURCE
        target = source.with_name(library_name())
        made = target.with_name(f".{library_name()}.{os.getpid()}")
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        try:
            if not any(compile_with(command, source, made) for command in candidates()):
                if not compile_with(zig_command(), source, made):
                    self.app.display_warning(
                        "No C compiler works here: kapitza is built without its compiled stepper, "
                        "and models with switches and impacts cannot be run."
                    )
                    return
                platform = platform.replace("linux_", "manylinux_2_17_")
            os.replace(made, target)
        finally:
            made.unlink(missing_ok=True)
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
        build_data["artifacts"].append(str(SOURCE.with_name(library_name())))
