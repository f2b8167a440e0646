"""ObjectStorage: the objects of one bucket on S3, Google Cloud Storage or Azure.

A snapshot is published by a conditional put: ``If-None-Match: *`` on S3 and Azure, generation 0 on GCS. The answers,
and what they mean:

===================  ==============================================================================================
2xx                  created by us
412                  lost: somebody else's object has the name
409                  S3: another conditional put of that name is under way, and may yet fail. Look; if there is
                     nothing, put again. (Azure: lost.)
timeout, 5xx, reset  unknown, so an error. Who published reads the object back: it is ours, another's, or missing
===================  ==============================================================================================

The client repeats failed requests by itself, but not this one: a repeated put would meet the object that its lost first
attempt had made, and take it for somebody else's.

A store at an endpoint of the user's choice may ignore the condition, and then writers overwrite each other silently.
So before the first conditional put a probe is put twice; a store that accepts the second one is refused, unless the
option ``commit.unsafe`` is true; then existence is looked up before a plain put.

Credentials travel with this object to other processes, and nowhere else: they are not in its text, and are taken out of
every error message.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import random
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, BinaryIO, cast

import pyarrow as pa

from paimon_spark.errors import CorruptFile, NotFound, PaimonError, StorageError, UnsupportedFeature
from paimon_spark.storage.credentials import ClientConfig
from paimon_spark.storage.forks import refuse_forks
from paimon_spark.storage.new_file import NewFile
from paimon_spark.storage.ranged_file import TAIL, RangedFile
from paimon_spark.storage.storage import FileInfo, Storage

MAX_LISTING = 1_000_000
_PUT_ATTEMPTS = 10
_PART_SIZE = 8 * 2**20


@dataclass(frozen=True)
class ObjectStorage(Storage):
    """The objects below ``bucket``, such as ``s3://name`` (no trailing slash), with which every full path begins.

    ``kind`` is s3, gs or azure; ``container`` is the bucket's bare name. Clients are made when they are first needed,
    once a process. ``open``, ``list``, ``size`` and ``exists`` also take paths in other buckets of the same scheme
    (not of Azure), which share endpoint and credentials: files at a table's external paths are read, never written.
    """

    kind: str
    bucket: str
    container: str
    config: ClientConfig = field(default=ClientConfig(), repr=False)
    unsafe: bool = False

    def read(self, path: str, limit: int | None = None) -> bytes:
        with self.typed_errors("read", path, NotFound):
            answer = _obstore().get(self._client(), self._key(path))
            size = answer.meta["size"]
            if limit is not None and size > limit:
                raise CorruptFile(path, f"{size} bytes long, at most {limit} are expected")
            data: bytes = answer.bytes().to_bytes()
        if len(data) != size:
            raise StorageError(f"cannot read {path}: {len(data)} of {size} bytes came")
        return data

    def open(self, path: str) -> pa.NativeFile:
        if (holder := self._holder(path)) is not self:
            return holder.open(path)
        key = self._key(path)

        def fetch(start: int, stop: int) -> memoryview:
            with self.typed_errors("read", path, NotFound):
                data = memoryview(_obstore().get_range(self._client(), key, start=start, end=stop))
            if len(data) != stop - start:
                raise StorageError(f"cannot read {path}: {len(data)} of {stop - start} bytes came")
            return data

        size, tail = self._end_of(path)
        return pa.PythonFile(RangedFile(fetch, size, tail), mode="r")

    def _end_of(self, path: str) -> tuple[int, memoryview]:
        """The size of an object and its last bytes, in one request where the store can."""
        key = self._key(path)
        if self.kind != "azure":
            with contextlib.suppress(StorageError), self.typed_errors("read", path, NotFound):
                answer = _obstore().get(self._client(), key, options={"range": {"suffix": TAIL}})
                return answer.meta["size"], memoryview(answer.bytes())
        return self.size(path), memoryview(b"")

    def write(self, path: str, data: bytes) -> None:
        try:
            with self.typed_errors("write", path):
                _obstore().put(self._client(), self._key(path), data)
        except PaimonError:
            with contextlib.suppress(PaimonError):
                self.delete(path)
            raise

    def create(self, path: str) -> BinaryIO:
        with self.typed_errors("create", path):
            upload = _obstore().open_writer(self._client(), self._key(path), buffer_size=_PART_SIZE)
        return cast(BinaryIO, NewFile(self, path, upload))

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if self.unsafe:
            return self._put_unsafely(path, data)
        if _needs_probe(self.config) and not self._is_safe(path):
            raise StorageError(
                f"cannot publish {path}: its store ignores the condition of a put, so concurrent writers would "
                "overwrite each other's commits. If there is only ever one writer, set the option commit.unsafe to true"
            )
        for attempt in range(_PUT_ATTEMPTS):
            if attempt:
                time.sleep(random.uniform(0, 0.01 * 2 ** min(attempt, 6)))
            if self._put_new(path, data):
                return True
            if self.exists(path):
                return False
        raise StorageError(f"cannot publish {path}: the store reported conflicting puts {_PUT_ATTEMPTS} times")

    def _put_unsafely(self, path: str, data: bytes) -> bool:
        """Look, then put: right as long as nobody else writes."""
        if self.exists(path):
            return False
        self.replace(path, data)
        return True

    def _put_new(self, path: str, data: bytes) -> bool:
        obstore = _obstore()
        with self.typed_errors("publish", path):
            try:
                obstore.put(self._client(retries=0), self._key(path), data, mode="create")
            except (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError):
                return False
        return True

    def _is_safe(self, path: str) -> bool:
        """Whether the store refuses a second conditional put; asked once a process and bucket."""
        return _is_safe(self, f"{path.rpartition('/')[0]}/.probe-{uuid.uuid4()}.tmp")

    def replace(self, path: str, data: bytes) -> None:
        with self.typed_errors("replace", path):
            _obstore().put(self._client(), self._key(path), data)

    def list(self, directory: str) -> builtins.list[FileInfo]:
        files = []
        for found in self._listed(directory)["objects"]:
            changed = found["last_modified"].timestamp()
            files.append(FileInfo(found["path"].rpartition("/")[2], found["size"], int(changed * 1000)))
        if len(files) > MAX_LISTING:
            raise StorageError(f"{directory} holds more than {MAX_LISTING} files; it is not listed")
        return files

    def directories(self, directory: str) -> builtins.list[str]:
        names = [prefix.rstrip("/").rpartition("/")[2] for prefix in self._listed(directory)["common_prefixes"]]
        return [name for name in names if not name.startswith(".")]

    def _listed(self, directory: str) -> Any:
        holder = self._holder(directory)
        with self.typed_errors("list", directory):
            return _obstore().list_with_delimiter(holder._client(), holder._key(directory))

    def size(self, path: str) -> int:
        holder = self._holder(path)
        with self.typed_errors("look up", path, NotFound):
            return int(_obstore().head(holder._client(), holder._key(path))["size"])

    def delete(self, path: str) -> None:
        with contextlib.suppress(NotFound), self.typed_errors("delete", path, NotFound):
            _obstore().delete(self._client(), self._key(path))

    # ------------------------------------------------------------------ the client

    def _key(self, path: str) -> str:
        if not path.startswith(self.bucket + "/") or ".." in path.split("/"):
            raise StorageError(f"{path} is not in {self.bucket}")
        return path[len(self.bucket) + 1 :]

    def _holder(self, path: str) -> ObjectStorage:
        """The storage of the bucket that a path is in; this one unless it is another of the same scheme."""
        scheme, _, rest = path.partition("://")
        container = rest.partition("/")[0]
        bucket = f"{scheme}://{container}"
        if bucket == self.bucket or scheme != self.bucket.partition("://")[0] or self.kind == "azure":
            return self
        return replace(self, bucket=bucket, container=container)

    def _client(self, retries: int = 10) -> Any:
        refuse_forks("an object store")
        return _client(self, retries)

    @contextlib.contextmanager
    def typed_errors(self, verb: str, path: str, missing: type[PaimonError] = StorageError) -> Iterator[None]:
        """Errors of the client as errors of this package, without credentials: the originals may have them."""
        try:
            yield
        except PaimonError:
            raise
        except FileNotFoundError:
            if missing is NotFound:
                raise NotFound(f"{path} does not exist") from None
            raise StorageError(f"cannot {verb} {path}: it does not exist") from None
        except Exception as problem:
            told = str(problem).partition("\n\nDebug source")[0].strip()
            text = self.config.without_secrets(f"{type(problem).__name__}: {told}")
            raise StorageError(f"cannot {verb} {path}: {text[:2000]}") from None


def _obstore() -> Any:
    try:
        import obstore
    except ImportError:
        raise UnsupportedFeature(
            "tables in object stores need the package obstore: pip install 'paimon-spark[object-store]'"
        ) from None
    return obstore


@lru_cache(maxsize=64)
def _client(storage: ObjectStorage, retries: int) -> Any:
    _obstore()
    from obstore import store

    make: Any = {"s3": store.S3Store, "gs": store.GCSStore, "azure": store.AzureStore}[storage.kind]
    config = dict(storage.config.values)
    more: dict[str, Any] = {}
    if storage.config.is_lasting_key:
        more["credential_provider"] = partial(
            _lasting_key, config.pop("access_key_id"), config.pop("secret_access_key")
        )
    plain = (config.get("endpoint") or config.get("base_url") or "").startswith("http://")
    with storage.typed_errors("open", storage.bucket):
        return make(
            storage.container,
            config=config,
            client_options={"allow_http": plain},
            retry_config={"max_retries": retries},
            **more,
        )


def _lasting_key(key: str, secret: str) -> dict[str, str | None]:
    """A key for the client as a whole: to one given in parts it would add the session token of the environment."""
    return {"access_key_id": key, "secret_access_key": secret, "token": None, "expires_at": None}


def _needs_probe(config: ClientConfig) -> bool:
    """Whether the store is none of those that are known to keep conditions."""
    environment = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    return bool(config.get("endpoint") or config.get("base_url") or environment or os.environ.get("AWS_ENDPOINT"))


@lru_cache(maxsize=64)
def _probed(storage: ObjectStorage) -> builtins.list[bool]:
    """What the probe of a bucket found; empty before it."""
    return []


def _is_safe(storage: ObjectStorage, probe: str) -> bool:
    verdict = _probed(storage)
    if not verdict:
        try:
            storage._put_new(probe, b"probe")
            verdict.append(not storage._put_new(probe, b"probe again"))
        finally:
            with contextlib.suppress(PaimonError):
                storage.delete(probe)
    return verdict[0]
