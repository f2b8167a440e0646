"""Credentials: what an object store needs to be told, from options, Hadoop's configuration and the environment.

An option means the same with each of its scheme's prefixes, and with dots or dashes::

    s3.access-key   s3a.access-key   fs.s3a.access.key   fs.s3.access-key

Options go before Hadoop's ``core-site.xml`` (in ``HADOOP_CONF_DIR``), and that before the environment (``AWS_…``,
``GOOGLE_…``, ``AZURE_…``, instance roles), which the client reads by itself.

Storage options are told from table options by their prefix, because they must never reach a schema file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from paimon_spark.errors import InvalidOption

UNSAFE = "commit.unsafe"
_PREFIXES = {
    "s3": ("s3.", "s3a.", "fs.s3a.", "fs.s3."),
    "gs": ("gs.", "fs.gs."),
    "azure": ("azure.", "abfs.", "fs.azure."),
}
_ALL_PREFIXES = ("fs.", "hadoop.", *(prefix for prefixes in _PREFIXES.values() for prefix in prefixes))
_NAMES = {
    "s3": {
        "endpoint": "endpoint",
        "access-key": "access_key_id",
        "access-key-id": "access_key_id",
        "secret-key": "secret_access_key",
        "secret-access-key": "secret_access_key",
        "session-token": "session_token",
        "security-token": "session_token",
        "region": "region",
        "endpoint-region": "region",
    },
    "gs": {
        "endpoint": "base_url",
        "service-account": "service_account",
        "service-account-key": "service_account_key",
        "auth-service-account-json-keyfile": "service_account",
        "bearer-token": "bearer_token",
    },
    "azure": {
        "endpoint": "endpoint",
        "account-key": "account_key",
        "sas-token": "sas_token",
        "sas-fixed-token": "sas_token",
        "bearer-token": "token",
        "client-id": "client_id",
        "account-oauth2-client-id": "client_id",
        "client-secret": "client_secret",
        "account-oauth2-client-secret": "client_secret",
        "tenant-id": "tenant_id",
        "account-oauth2-client-endpoint": "tenant_id",
    },
}
_PATH_STYLE, _USE_TLS = "path-style-access", "connection-ssl-enabled"
_FILES = frozenset({"service_account", "service_account_key"})
_OAUTH_ENDPOINT = re.compile(r"https://[^/]+/([^/]+)/oauth2/.*")
_PUBLIC = frozenset(
    {
        "endpoint",
        "base_url",
        "region",
        "virtual_hosted_style_request",
        "disable_bulk_delete",
        "client_id",
        "tenant_id",
        "account_name",
    }
)
_QUERY = re.compile(r"\?[^\s\"'<>)]*")


@dataclass(frozen=True)
class ClientConfig:
    """Settings of a store's client, by the names that the client uses. Never shown: most of them are secret."""

    values: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def get(self, name: str) -> str | None:
        """The value of a setting."""
        return dict(self.values).get(name)

    @property
    def is_lasting_key(self) -> bool:
        """Whether this has a key of S3 that needs no session token."""
        names = {name for name, _ in self.values}
        return {"access_key_id", "secret_access_key"} <= names and "session_token" not in names

    def without_secrets(self, text: str) -> str:
        """``text`` with every secret in it replaced by stars. Queries of URLs go too: they hold signatures."""
        text = _QUERY.sub("?…", text)
        for name, value in self.values:
            if name not in _PUBLIC and value:
                text = text.replace(value, "***")
        return text


def is_storage_option(key: str) -> bool:
    """Whether an option is for the storage, and so must not be kept with the table."""
    return key.lower().startswith(_ALL_PREFIXES) or key.lower() == UNSAFE


def table_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options that are not for the storage."""
    return {key: value for key, value in options.items() if not is_storage_option(key)}


def storage_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options that are for the storage."""
    return {key: value for key, value in options.items() if is_storage_option(key)}


def client_config(kind: str, options: Mapping[str, str], account: str | None = None) -> ClientConfig:
    """The settings for a client of ``kind`` (s3, gs or azure); ``account`` is Azure's, in lower case.

    :raises InvalidOption: an option contradicts itself
    """
    hadoop, given = _known(kind, hadoop_configuration(), account), _known(kind, options, account)
    if "access_key_id" in given:
        hadoop.pop("session_token", None)  # it belongs to another key
    found = {**hadoop, **given}
    values = {name: value for name, value in found.items() if name not in (_PATH_STYLE, _USE_TLS)}
    if account is not None:
        values["account_name"] = account
    if kind == "s3":
        _complete_s3(values, found)
    tenant = _OAUTH_ENDPOINT.fullmatch(values.get("tenant_id", ""))
    if tenant is not None:
        values["tenant_id"] = tenant[1]
    return ClientConfig(tuple(sorted(values.items())))


def _known(kind: str, options: Mapping[str, str], account: str | None) -> dict[str, str]:
    """The options of that kind, by the client's name of them."""
    known: dict[str, str] = {}
    for key, value in options.items():
        bare = _bare_name(kind, key.lower(), account)
        name = bare if bare in (_PATH_STYLE, _USE_TLS) else _NAMES[kind].get(bare)
        if name is None:
            continue
        if name not in _FILES and not (value.isascii() and value.isprintable()):
            raise InvalidOption(f"option {key!r} has a line break or another character that cannot be sent to a store")
        if known.setdefault(name, value) != value:
            raise InvalidOption(f"option {key!r} is given twice, under two spellings and with two values")
    return known


def _bare_name(kind: str, key: str, account: str | None) -> str:
    for prefix in _PREFIXES[kind]:
        if key.startswith(prefix):
            name = key[len(prefix) :]
            if account is not None:  # fs.azure.account.key.<account>.dfs.core.windows.net
                name = re.sub(rf"\.{re.escape(account)}\.(dfs|blob)\..*", "", name)
            return re.sub(r"[._]", "-", name)
    return ""


def _complete_s3(values: dict[str, str], found: Mapping[str, str]) -> None:
    values["disable_bulk_delete"] = "true"  # files are deleted one by one, and not every store knows the other request
    endpoint = values.get("endpoint")
    if endpoint is not None and "://" not in endpoint:
        scheme = "http" if found.get(_USE_TLS, "true").strip().lower() == "false" else "https"
        values["endpoint"] = f"{scheme}://{endpoint}"
    if _PATH_STYLE in found:
        wanted = found[_PATH_STYLE].strip().lower()
        if wanted not in ("true", "false"):
            raise InvalidOption(f"option 's3.{_PATH_STYLE}' = {wanted!r}: 'true' or 'false' is expected")
        values["virtual_hosted_style_request"] = "false" if wanted == "true" else "true"
    if endpoint is not None:
        values.setdefault("region", "us-east-1")


def hadoop_configuration() -> dict[str, str]:
    """The properties in Hadoop's ``core-site.xml``; none when ``HADOOP_CONF_DIR`` does not name a directory with one.

    Values that refer to other properties (``${…}``) are left out.

    :raises InvalidOption: the file cannot be read
    """
    directory = os.environ.get("HADOOP_CONF_DIR")
    if not directory or not os.path.isfile(site := os.path.join(directory, "core-site.xml")):
        return {}
    from xml.etree import ElementTree

    try:
        properties = ElementTree.parse(site).iter("property")
        pairs = [((p.findtext("name") or "").strip(), (p.findtext("value") or "").strip()) for p in properties]
    except (OSError, ElementTree.ParseError) as problem:
        raise InvalidOption(f"HADOOP_CONF_DIR: {site} cannot be read: {problem}") from None
    return {name: value for name, value in pairs if name and value and "${" not in value}
