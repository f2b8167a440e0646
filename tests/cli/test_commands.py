"""The command line as a scheduler sees it: output, one-line errors, exit codes."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from paimon_spark.cli.commands import UsageError, typed_partition
from paimon_spark.cli.main import main
from paimon_spark.errors import CommitConflict, CommitStateUnknown, PaimonError
from paimon_spark.metadata.schema import TableSchema
from paimon_spark.options import Options
from paimon_spark.table import PaimonTable
from paimon_spark.types import DataField, parse_type
from tests.check.damage import Victim

REPO = Path(__file__).resolve().parents[2]
Output = pytest.CaptureFixture[str]


@pytest.fixture
def victim(tmp_path: Path) -> Victim:
    made = Victim.new(tmp_path / "t", partitioned=True, write_only="true")
    made.append(range(10), partition=1)
    made.append(range(5, 15), partition=1)
    made.append([1], partition=2)
    return made


def _damage(victim: Victim) -> str:
    gone = victim.entries[0]
    victim.path(gone).unlink()
    return victim.name(gone)


def test_check(victim: Victim, capsys: Output) -> None:
    path = victim.table.path
    assert main(["check", path]) == 0
    assert main(["check", path, "--all-snapshots", "--fast"]) == 0
    assert capsys.readouterr().out == "sound\nsound, as far as manifests and directories tell\n"
    name = _damage(victim)
    assert main(["check", path, "--fast"]) == 1
    assert capsys.readouterr().out == f"missing: {name}: the file does not exist\n1 breach\n"


def test_inspect(victim: Victim, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["inspect", victim.table.path, "--files"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == victim.table.path
    assert lines[1:4] == ["  key         p, k", "  partitions  p", "  engine      deduplicate, 1 bucket"]
    assert lines[4].startswith("  snapshot    3 (APPEND, 20")
    start = lines.index("partition  bucket  level  files  rows  deleted     size  keys")
    table = lines[start : start + 6]
    assert [line.split()[:6] for line in table[2:4]] == [
        ["p=1", "0", "0", "2", "20", "0"],
        ["p=2", "0", "0", "1", "1", "0"],
    ]
    assert table[2].endswith("[0] … [14]")
    assert table[5].split()[:4] == ["all", "3", "21", "0"]
    assert all(len(line) <= 80 for line in table)
    for entry in victim.entries:
        assert any(line.endswith("  " + victim.name(entry)) for line in lines)


def test_inspect_a_snapshot_of_the_past(victim: Victim, capsys: Output) -> None:
    assert main(["inspect", victim.table.path, "--snapshot", "1"]) == 0
    assert "  snapshot    1 (APPEND" in capsys.readouterr().out
    assert main(["inspect", victim.table.path, "--snapshot", "9"]) == 1
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("paimon_spark: snapshot 9 of table ")


def test_inspect_an_empty_table(tmp_path: Path, capsys: Output) -> None:
    assert main(["inspect", Victim.new(tmp_path / "t").table.path]) == 0
    assert capsys.readouterr().out.endswith("  snapshot    none\n")


def test_inspect_shows_masked_rows(golden: Path, capsys: Output) -> None:
    path = golden / "java-0.9" / "dv_multi_file" / "warehouse" / "default.db" / "t"
    assert main(["inspect", str(path)]) == 0
    out = capsys.readouterr().out
    assert "engine      partial-update, 1 bucket, deletion vectors" in out
    (total,) = [line for line in out.splitlines() if line.lstrip().startswith("all")]
    assert int(total.split()[3]) > 0


def test_compact(victim: Victim, capsys: Output) -> None:
    rows = victim.table.read().sort_by([("p", "ascending"), ("k", "ascending")])
    assert main(["compact", victim.table.path, "--full", "--partition", "p=1"]) == 0
    assert capsys.readouterr().out.startswith("snapshot 4\npartition  bucket  level")
    levels = victim.table.levels()
    assert levels.column("files").to_pylist() == [1, 1]
    assert levels.column("level").to_pylist()[0] > 0
    assert levels.column("level").to_pylist()[1] == 0
    assert main(["compact", victim.table.path, "--full", "--partition", "p=1"]) == 0
    assert capsys.readouterr().out == "nothing to compact\n"
    assert victim.table.read().sort_by([("p", "ascending"), ("k", "ascending")]) == rows
    assert victim.breaches(all_snapshots=True) == []


def test_expire(victim: Victim, capsys: Output) -> None:
    path = victim.table.path
    assert main(["expire", path, "--retain-min", "1"]) == 0
    assert main(["expire", path, "--retain-min", "1", "--older-than", "0 s", "--max-deletes", "1"]) == 0
    assert main(["expire", path, "--retain-max", "1", "--retain-min", "1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "0 snapshots expired, 1 to 3 are kept",
        "1 snapshot expired, 2 to 3 are kept",
        "1 snapshot expired, 3 to 3 are kept",
    ]
    assert main(["expire", path, "--retain-max", "1"]) == 1
    assert "at least one snapshot stays" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["expire", path, "--older-than", "yesterday"])
    assert "'yesterday' is no age such as '7 d'" in capsys.readouterr().err
    assert victim.breaches(all_snapshots=True) == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PaimonError("no\nluck"), 1),
        (CommitConflict("no\nluck"), 3),
        (CommitStateUnknown("no\nluck"), 4),
    ],
)
def test_errors_of_a_compaction(
    victim: Victim, capsys: Output, monkeypatch: pytest.MonkeyPatch, error: PaimonError, code: int
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(PaimonTable, "compact", fails)
    assert main(["compact", victim.table.path]) == code
    assert capsys.readouterr().err == "paimon_spark: no luck\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["destroy", "t"],
        ["check"],
        ["check", "t", "--fas"],
        ["check", "t", "--snapshot", "1", "--all-snapshots"],
        ["inspect", "t", "--snapshot", "newest"],
        ["inspect", "t", "--option", "novalue"],
        ["compact", "t", "--partition", "p"],
        ["compact", "t", "--partition", "p=1,p=2"],
    ],
)
def test_arguments_that_make_no_sense(arguments: list[str], capsys: Output) -> None:
    with pytest.raises(SystemExit) as exited:
        main(arguments)
    assert exited.value.code == 2
    assert "usage: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("partition", "message"), [("k=1", "not a partition column (p)"), ("p=x", "no value of p INT")]
)
def test_partitions_that_do_not_fit_the_table(victim: Victim, capsys: Output, partition: str, message: str) -> None:
    assert main(["compact", victim.table.path, "--partition", partition]) == 2
    assert message in capsys.readouterr().err


def test_partition_values_have_the_types_of_their_columns() -> None:
    types = {"d": "DATE", "i": "INT NOT NULL", "s": "STRING", "b": "BOOLEAN"}
    fields = tuple(DataField(i, name, parse_type(text)) for i, (name, text) in enumerate(types.items()))
    schema = TableSchema(0, fields, 3, tuple(types), ("i",), Options())
    given = {"d": "2024-01-31", "i": "-7", "s": "a=b", "b": "true"}
    assert typed_partition(schema, given) == {"d": date(2024, 1, 31), "i": -7, "s": "a=b", "b": True}
    assert typed_partition(schema, {"s": "__DEFAULT_PARTITION__"}) == {"s": None}
    with pytest.raises(UsageError, match="'2024-13-31' is no value of d DATE"):
        typed_partition(schema, {"d": "2024-13-31"})


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "paimon_spark", *arguments], capture_output=True, text=True, cwd=REPO, check=False
    )


def test_as_a_process(victim: Victim, tmp_path: Path) -> None:
    path = victim.table.path
    sound = _run("check", path)
    assert (sound.returncode, sound.stdout, sound.stderr) == (0, "sound\n", "")
    missing = _run("check", str(tmp_path / "none"))
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr == f"paimon_spark: there is no Paimon table at {tmp_path / 'none'}\n"
    _damage(victim)
    assert _run("check", path).returncode == 1
    assert _run("check").returncode == 2
    help_ = _run("--help")
    assert help_.returncode == 0
    assert "exit codes:" in help_.stdout


def test_a_reader_that_has_seen_enough(victim: Victim) -> None:
    command = (
        f"{sys.executable} -m paimon_spark inspect {victim.table.path} --files | head -c 1; echo ${{PIPESTATUS[0]}}"
    )
    answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=REPO, check=True)
    assert answer.stdout.endswith("0\n")
    assert answer.stderr == ""


def test_spark_is_not_needed() -> None:
    program = "import sys, paimon_spark.cli.main; print('pyspark' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=REPO, check=True)
    assert answer.stdout == "False\n"
