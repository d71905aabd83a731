"""Vocabularies of categorical columns: the rank of a value is its position among the categories, as in the table."""

from __future__ import annotations

import json
import re
from typing import Any, Iterator, Mapping

from ._errors import UsageError
from ._hugging_face import is_dataset, is_dataset_dict, labels_of


def ranked_columns(rules: Any) -> list[str]:
    """Returns the columns that the option `map` writes as ranks."""
    if isinstance(rules, Mapping):
        entries = [(str(column), str(rule)) for column, rule in rules.items()]
    else:
        texts = rules if isinstance(rules, (list, tuple, set, frozenset)) else [] if rules is None else [rules]
        entries = [_entry(str(text)) for text in texts]
    return [column for column, rule in entries if "index" in [part.strip().lower() for part in rule.split(",")]]


def _entry(text: str) -> tuple[str, str]:
    """Returns the column and the rule of `column: rule`, whose column may be in double quotes."""
    quoted = re.match(r'\s*"((?:[^"]|"")*)"\s*:', text)
    if quoted is not None:
        return quoted[1].replace('""', '"'), text[quoted.end() :]
    column, _, rule = text.partition(":")
    return column.strip(), rule


def vocabularies(data: Any, columns: list[str], name: str) -> dict[str, tuple[str, list[str]]]:
    """Returns, by these names, the columns of `data` and the categories of those of these columns that have an order of their own.

    That is the case for categorical columns of pandas, Enum columns of polars, ordered dictionaries of pyarrow, and
    ClassLabel columns of Hugging Face. Other columns have none: the command sorts their values.
    """
    __tracebackhide__ = True
    categories = dict(_categories(data, name, columns)) if columns else {}
    found = {}
    for typed in columns:
        # As in SQL, a name matches regardless of case if only one column fits.
        fitting = [typed] if typed in categories else [column for column in categories if str(column).lower() == typed.lower()]
        if len(fitting) == 1 and categories[fitting[0]] and all(isinstance(text, str) for text in categories[fitting[0]]):
            found[typed] = (fitting[0], categories[fitting[0]])
    return found


def _categories(data: Any, name: str, columns: list[str]) -> Iterator[tuple[str, list[Any]]]:
    __tracebackhide__ = True
    wanted = {column.lower() for column in columns}
    library = type(data).__module__.partition(".")[0]
    if library == "pandas" and hasattr(data, "columns"):
        types = [(column, dtype) for column, dtype in data.dtypes.items() if hasattr(dtype, "categories")]
    elif library == "polars" and hasattr(data, "collect_schema"):
        types = [(column, dtype) for column, dtype in data.collect_schema().items() if type(dtype).__name__ == "Enum"]
    elif is_dataset(data) or is_dataset_dict(data):
        yield from ((column, names) for column, names in labels_of(data).items() if column.lower() in wanted)
        return
    elif library == "pyarrow" and hasattr(data, "schema"):
        yield from _ordered_dictionaries(data, name, wanted)
        return
    else:
        return
    yield from ((column, list(dtype.categories)) for column, dtype in types if str(column).lower() in wanted)


def _ordered_dictionaries(data: Any, name: str, wanted: set[str]) -> Iterator[tuple[str, list[Any]]]:
    """Yields the dictionaries of columns of a table or batch of pyarrow whose type says that their order means something."""
    __tracebackhide__ = True
    for field in data.schema:
        if field.name.lower() not in wanted or not getattr(field.type, "ordered", False):
            continue
        if not hasattr(data, "column"):
            raise UsageError(
                f"{name}: column {field.name!r} has an ordered dictionary, which is not known before the rows are read",
                hint="Pass a pyarrow.Table, or give the vocabulary in map_file=.",
            )
        column = data.column(field.name)
        chunks = column.chunks if hasattr(column, "chunks") else [column]
        dictionaries = [chunk.dictionary.to_pylist() for chunk in chunks]
        if any(dictionary != dictionaries[0] for dictionary in dictionaries):
            raise UsageError(
                f"{name}: column {field.name!r} has an ordered dictionary that differs between its chunks",
                hint="Use table.unify_dictionaries() if its order is right, or give the vocabulary in map_file=.",
            )
        if dictionaries:
            yield field.name, dictionaries[0]


def as_map_file(found: Mapping[str, tuple[str, list[str]]]) -> str:
    """Returns the text of a mapping file with these vocabularies."""
    entries = ((typed, values) for typed, (_, values) in found.items())
    text = "".join(f"[columns.{_in_toml(typed)}]\nvocabulary = {_in_toml(values)}\n" for typed, values in entries)
    return text.replace("\x7f", "\\u007f")


def _in_toml(value: Any) -> str:
    # Strings and lists of strings are the same in both languages.
    return json.dumps(value, ensure_ascii=False)
