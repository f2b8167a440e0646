"""History: what the records of a key amount to in a partial-update table, once retracts are accounted for.

The first record of a key, if it is a retract, makes the row start from its values. After that, depending on the
table's options, a retract is ignored (``ignore-delete``), removes the row and makes it start anew from the retract's
values (-D under ``partial-update.remove-record-on-delete``, or not older than the row in a group of
``partial-update.remove-record-on-sequence-group``), or acts on the sequence groups. So a history is

* its **base**: the newest record from whose values the row started, a full row whose nulls count; or none;
* the **adds** after the base;
* in tables with groups the retracts after the base, and the base itself once more when it is a first retract that did
  not remove: it then acts upon the row that it made.

    records (k, v)                              base          adds        v      kind
    +I(1, a) +I(1, null)                        none          a, null     a      +I
    -D(1, a) +I(1, null)   ignore-delete        -D(1, a)      null        a      +I
    +I(1, a) -D(1, null)   remove on delete     -D(1, null)   none        null   -D
    … then +I(1, b) -U(1, c)                    -D(1, null)   b           b      +I   (a -U does nothing here)

Source: ``PartialUpdateMergeFunction`` of Apache Paimon (1.4.1 and later).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paimon_spark.errors import InvalidInput
from paimon_spark.files.key_values import DELETE, Int8Array, Int64Array, KeyValues
from paimon_spark.merge.key_groups import BoolArray, KeyGroups
from paimon_spark.merge.sequence_groups import Tuples, removals
from paimon_spark.options import IGNORE_DELETE, REMOVE_RECORD_ON_DELETE


@dataclass(frozen=True)
class RetractRule:
    """What retracts do: nothing when ``ignored``; else act on the groups when the table is ``grouped``; else -D
    removes the row when ``removing``; else they are an error."""

    ignored: bool = False
    grouped: bool = False
    removing: bool = False


@dataclass(frozen=True)
class History:
    """The histories of some keys; positions are those of ``records``.

    ``base``: each key's base, or -1. ``adds``: the base and the adds after it. ``acting``: which records may decide a
    sequence group (None: all). ``emptying``: which of them empty the protected columns when they do (None: none).
    ``removed``: whether the result is a -D. ``newest``: the row whose sequence number is the result's; -1 for the
    number 0. ``copied``: rows whose every value the row took over at some time.
    """

    records: KeyGroups
    base: Int64Array
    adds: KeyGroups
    acting: BoolArray | None
    emptying: BoolArray | None
    removed: BoolArray
    newest: Int64Array
    copied: Int64Array


def history(rows: KeyValues, records: KeyGroups, rule: RetractRule, listed: Sequence[Tuples]) -> History:
    """The histories of the keys of ``records``, each of which has several.

    ``listed``: by position, the tuples of the groups whose deletes remove rows.

    :raises InvalidInput: a retract where the rule has none
    """
    kinds = None if rows.kind is None else rows.kind[records.order]
    if kinds is None or not (kinds & 1).any():
        return _adds_only(records, rule)
    retract = (kinds & 1) == 1
    first = np.zeros(len(retract), np.bool_)
    first[records.starts] = retract[records.starts]
    removing = _removing(records, kinds, rule, listed)
    base = records.newest(first | removing)
    is_base = np.zeros(len(retract), np.bool_)
    is_base[base[base >= 0]] = True
    since_base = np.arange(len(retract)) >= records.spread(base)
    add_or_base = since_base & (~retract | is_base)
    newest_add = records.newest(~retract)
    copied = first | removing | (~retract & (not rule.grouped))
    if rule.ignored:
        newest = np.where(newest_add >= 0, records.order[newest_add], -1)
        acting, emptying = add_or_base, None
    else:
        newest = records.order[records.last]
        acting, emptying = since_base, retract & ~(is_base & removing)
    return History(
        records,
        base,
        records.keep(add_or_base),
        acting,
        emptying,
        (newest_add < 0) | removing[records.last],
        newest,
        records.order[copied],
    )


def _adds_only(records: KeyGroups, rule: RetractRule) -> History:
    none = np.full(len(records), -1)
    copied = records.order[:0] if rule.grouped else records.order
    return History(records, none, records, None, None, none >= 0, records.order[records.last], copied)


def _removing(records: KeyGroups, kinds: Int8Array, rule: RetractRule, listed: Sequence[Tuples]) -> BoolArray:
    """At which positions a -D removes the row."""
    deletes: BoolArray = kinds == DELETE
    if rule.ignored or (rule.grouped and not listed):
        return np.zeros(len(kinds), np.bool_)
    if rule.grouped:
        return removals(records, deletes, listed)
    if rule.removing:
        return deletes
    name = "-D" if deletes.any() else "-U"
    raise InvalidInput(
        f"a {name} record meets other records of its key, but this partial-update table does not say what a retract "
        f"does. Set {IGNORE_DELETE.key!r} = 'true' to ignore retracts, or {REMOVE_RECORD_ON_DELETE.key!r} = 'true' to "
        "let -D remove the row, or protect columns by 'fields.<sequence column>.sequence-group' to retract by group"
    )
