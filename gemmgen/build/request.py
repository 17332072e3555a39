"""What every compile shares, whichever compiler does it: the request is checked, keyed and
looked up; what is new is made, read and kept; and what spills is refused."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

from gemmgen.build.binary import Binary, KernelResources, refuse_spills
from gemmgen.cache import FORMAT, Cache
from gemmgen.errors import BuildError, ResourceError

_PART = r"(?!-|\.\.?(?:/|$))[A-Za-z0-9_.+-]+"  # no option, and no way out of a folder
_NAME = re.compile(f"{_PART}(/{_PART})*")
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include\b", re.M)
_ABSOLUTE_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]/", re.M)


class Compiler(Protocol):
    """A compiler at hand.

    Attributes:
        name: what people call it, as `NVRTC 13.5`.
        identity: names this build of it, the same wherever it is installed.
        archs: every architecture it compiles for.
    """

    name: str
    identity: str
    archs: tuple[str, ...]

    def remedy(self, arch: str) -> str | None:
        """Which compiler knows an architecture that this one does not; None where that is not known."""


@dataclass(frozen=True)
class Product:
    """What a compiler made of a source it accepted; `seconds` is how long it took."""

    code: bytes
    assembly: str
    log: str
    seconds: float


@dataclass(frozen=True)
class Request:
    """A source to compile.

    Attributes:
        text: the source.
        arch: the architecture, as `sm_80` or `gfx90a`.
        name: a relative path to call the source by.
        options: the caller's further options, one string each.
    """

    text: str
    arch: str
    name: str
    options: Sequence[str]

    @property
    def includes(self) -> bool:
        """Whether the source includes files. Line information would tell where they lie."""
        return bool(_INCLUDE.search(self.text))

    def check(self, arch_options: tuple[str, ...]) -> None:
        """Refuse what no compiler should see.

        Args:
            arch_options: how options that choose an architecture begin.

        Raises:
            BuildError: a name that is no relative path, options that are not a list
                of strings or choose the architecture, or characters that are not text.
        """
        if not _NAME.fullmatch(self.name):
            raise BuildError(
                "name",
                "a source's name is a relative path",
                got=self.name,
                needs="parts of letters, digits and _ . + -, none . or .. or beginning with -, and / between them",
            )
        if isinstance(self.options, str):
            raise BuildError(self.name, "options is one string", got=self.options, needs="a list of strings")
        for part in (self.text, *self.options):
            if "\0" in part or not _encodes(part):
                raise BuildError(self.name, "the source or an option holds a character that is not text")
        for option in self.options:
            if option.startswith(arch_options):
                raise BuildError(self.name, "the architecture is an argument, not an option", got=option)

    def key(self, compiler: Compiler, all_options: Sequence[str]) -> str:
        """What determines the bytes. Bundled headers belong to the compiler's identity."""
        facts = [FORMAT, compiler.identity, *all_options, self.name, self.text]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    def reads_unkeyed_files(self, file_options: tuple[str, ...]) -> bool:
        """Whether the result can depend on files that the key knows nothing of.

        Args:
            file_options: how options that name files or folders begin.
        """
        return bool(_ABSOLUTE_INCLUDE.search(self.text)) or any(
            option.startswith(file_options) for option in self.options
        )


def fulfil(
    request: Request,
    compiler: Compiler,
    all_options: Sequence[str],
    *,
    make: Callable[[], Product] | None,
    read: Callable[[Product], Mapping[str, KernelResources]],
    cache: Cache | None,
    allow_spills: bool,
) -> Binary:
    """The Binary of a request that was checked: from the cache, or made and kept.

    Args:
        all_options: what the compiler is told: the architecture, gemmgen's options, the caller's.
        make: compiles, or raises a BuildError; None where only what the cache holds will do.
        read: the resources of each kernel.
        cache: where to look first and keep the result; None for neither.
        allow_spills: accept kernels that spill registers to memory.

    Raises:
        BuildError: an architecture the compiler does not know, a source without a
            kernel, or whatever `make` and `read` raise; or the cache does not hold it and there is no `make`.
        ResourceError: a kernel spills, and `allow_spills` is false.
    """
    if request.arch not in compiler.archs:
        raise BuildError(
            request.name,
            f"cannot be compiled for this architecture by {compiler.name}",
            got=request.arch,
            needs="one of: " + ", ".join(compiler.archs),
            remedy=compiler.remedy(request.arch),
        )
    key = request.key(compiler, all_options)
    product, kernels = _kept(cache, key, read) if cache else (None, {})
    from_cache = product is not None
    if product is None:
        if make is None:
            raise BuildError(request.name, "was not built before", needs="an entry of the cache", remedy="gemmgen build")
        product = make()
        kernels = read(product)
    if not kernels:
        raise BuildError(
            request.name,
            "defines no kernel",
            needs='a function that is extern "C" and __global__ or, without headers, __attribute__((global))',
        )
    if cache and not from_cache:
        _keep(cache, key, product)
    binary = Binary(
        arch=request.arch,
        code=product.code,
        assembly=product.assembly,
        kernels=kernels,
        compiler=compiler.name,
        log=product.log,
        key=key,
        source_name=request.name,
        from_cache=from_cache,
        seconds=product.seconds,
    )
    if not allow_spills:
        try:
            refuse_spills(binary)
        except ResourceError:
            if cache:
                cache.mark_refused(PurePosixPath(request.name).stem)
            raise
    return binary


def _keep(cache: Cache, key: str, product: Product) -> None:
    parts = {
        "code": product.code,
        "assembly": product.assembly.encode(),
        "log": product.log.encode(),
        "seconds": repr(product.seconds).encode(),
    }
    cache.put(key, parts)


def _kept(cache: Cache, key: str, read: Callable[[Product], Mapping[str, KernelResources]]) -> tuple[Product | None, Mapping[str, KernelResources]]:
    """What the cache has under `key`, read; (None, {}) where it has nothing, or what no compile left there."""
    parts = cache.get(key)
    if parts is None:
        return None, {}
    try:
        product = Product(
            code=parts["code"],
            assembly=parts["assembly"].decode(),
            log=parts["log"].decode(),
            seconds=float(parts["seconds"]),
        )
        if kernels := read(product):
            return product, kernels
        reason = "it has no kernel"
    except Exception as error:  # whatever readers of machine code make of bytes that no compiler wrote
        reason = str(error) or type(error).__name__
    cache.replacing(key, reason)
    return None, {}


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True
