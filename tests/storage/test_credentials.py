"""Credentials: where they are looked for, under which names, and that they are not shown or kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from paimon_spark.errors import InvalidOption
from paimon_spark.storage.credentials import ClientConfig, client_config, storage_options, table_options

KEYS = {"access_key_id": "A", "secret_access_key": "S", "session_token": "T"}


def config(kind: str, options: dict[str, str], account: str | None = None) -> dict[str, str]:
    """The client's settings without the one that all S3 clients have."""
    return {k: v for k, v in client_config(kind, options, account).values if k != "disable_bulk_delete"}


@pytest.fixture(autouse=True)
def no_hadoop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)


@pytest.mark.parametrize(
    "options",
    [
        {"s3.access-key": "A", "s3.secret-key": "S", "s3.session-token": "T"},
        {"fs.s3a.access.key": "A", "fs.s3a.secret.key": "S", "fs.s3a.session.token": "T"},
        {"s3a.access_key_id": "A", "s3.secret-access-key": "S", "fs.s3.security-token": "T"},
        {"S3.Access-Key": "A", "s3.access.key": "A", "s3.secret-key": "S", "s3.session-token": "T"},
    ],
)
def test_all_spellings_mean_the_same(options: dict[str, str]) -> None:
    assert config("s3", {**options, "gs.service-account-key": "other", "bucket": "4"}) == KEYS


def test_two_values_for_one_thing_are_refused_without_showing_them() -> None:
    with pytest.raises(InvalidOption, match=r"fs\.s3a\.secret\.key.*given twice") as caught:
        client_config("s3", {"s3.secret-key": "CANARY", "fs.s3a.secret.key": "CANARY2"})
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize("value", ["CANARY\n", "CAN\u00c1RY"])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(value: str) -> None:
    with pytest.raises(InvalidOption, match=r"'s3\.secret-key' has a line break") as caught:
        client_config("s3", {"s3.secret-key": value})
    assert "CAN" not in str(caught.value)
    assert config("gs", {"gs.service-account-key": "{\n}"}) == {"service_account_key": "{\n}"}


def test_endpoints() -> None:
    assert config("s3", {"s3.endpoint": "http://h:9000"}) == {"endpoint": "http://h:9000", "region": "us-east-1"}
    assert config("s3", {"fs.s3a.endpoint": "h:9000", "s3.region": "eu"}) == {
        "endpoint": "https://h:9000",
        "region": "eu",
    }
    plain = {"fs.s3a.endpoint": "h", "fs.s3a.connection.ssl.enabled": "false", "fs.s3a.path.style.access": "true"}
    assert config("s3", plain) == {
        "endpoint": "http://h",
        "region": "us-east-1",
        "virtual_hosted_style_request": "false",
    }
    assert config("s3", {"s3.path-style-access": "false"}) == {"virtual_hosted_style_request": "true"}
    with pytest.raises(InvalidOption, match="path-style-access"):
        client_config("s3", {"s3.path.style.access": "perhaps"})


def test_google_and_azure() -> None:
    assert config("gs", {"fs.gs.auth.service.account.json.keyfile": "/k.json"}) == {"service_account": "/k.json"}
    keys = {
        "fs.azure.account.key.acc.dfs.core.windows.net": "K",
        "fs.azure.account.key.other.dfs.core.windows.net": "not this one",
    }
    assert config("azure", keys, "acc") == {"account_key": "K", "account_name": "acc"}
    assert config("azure", {"azure.sas-token": "s"}, "acc") == {"sas_token": "s", "account_name": "acc"}
    oauth = "fs.azure.account.oauth2.client"
    person = {
        f"{oauth}.id.acc.dfs.core.windows.net": "me",
        f"{oauth}.secret": "CANARY",
        f"{oauth}.endpoint": "https://login.microsoftonline.com/my-tenant/oauth2/token",
    }
    assert config("azure", person, "acc") == {
        "account_name": "acc",
        "client_id": "me",
        "client_secret": "CANARY",
        "tenant_id": "my-tenant",
    }


def test_hadoop_configuration_yields_to_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert config("s3", {}) == {}
    site = tmp_path / "core-site.xml"
    site.write_text(
        """<?xml version="1.0"?>
        <configuration>
          <!-- <property><name>fs.s3a.session.token</name><value>commented out</value></property> -->
          <property><name>fs.s3a.access.key</name><value> A </value></property>
          <property><name>fs.s3a.secret.key</name><value>a&lt;b&amp;c</value><final>true</final></property>
          <property><name>fs.s3a.endpoint.region</name><value>${region}</value></property>
          <property><name>fs.defaultFS</name><value>hdfs://x</value></property>
        </configuration>"""
    )
    assert config("s3", {}) == {"access_key_id": "A", "secret_access_key": "a<b&c"}
    assert config("s3", {"s3.access-key": "B"}) == {"access_key_id": "B", "secret_access_key": "a<b&c"}
    site.write_text(
        "<configuration><property><name>fs.s3a.endpoint.region</name><value>of-hadoop</value></property>"
        "<property><name>fs.s3a.session.token</name><value>of-hadoop</value></property></configuration>"
    )
    assert config("s3", {"s3.region": "mine", "s3.access-key": "A"}) == {"region": "mine", "access_key_id": "A"}
    site.write_text("<configuration>")
    with pytest.raises(InvalidOption, match=r"core-site\.xml cannot be read"):
        client_config("s3", {})


def test_options_of_tables_and_storages_are_told_apart() -> None:
    storage = {"s3.access-key": "A", "fs.s3a.secret.key": "S", "FS.azure.x": "1", "commit.unsafe": "true", "gs.x": "y"}
    table = {"bucket": "4", "fields.s3.sequence-group": "a", "commit.user-prefix": "u", "file.format": "parquet"}
    assert table_options({**storage, **table}) == table
    assert storage_options({**storage, **table}) == storage


def test_secrets_are_not_shown() -> None:
    settings = ClientConfig((("endpoint", "http://h"), ("secret_access_key", "CANARY"), ("session_token", "")))
    assert "CANARY" not in repr(settings) + str(settings)
    assert settings.without_secrets("PUT http://h/x?sig=1 with CANARY") == "PUT http://h/x?… with ***"
