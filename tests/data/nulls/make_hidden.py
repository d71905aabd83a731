"""Writes the files and queries of `tests/tests/it/hidden.rs`: values under nulls, and what DuckDB answers.

    python make_hidden.py    # pyarrow 26, duckdb 2.0, fastavro 1.12

`hidden.arrow` stores values under nulls: fields of null structs, items of null lists, entries of null maps. `hidden.parquet` has
structs that may be null with required fields. `hidden.avro` and `hidden.orc` have the same rows. `queries.json` has random queries
over a table `t` of these rows, and the answers of DuckDB, which reads the rows without anything under nulls. `leaves.parquet` has a
struct with one long leaf, `dictionaries.arrow` dictionaries whose keys point to nulls, `layouts.arrow`
types that other formats lack.
"""

import json
import random

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet

ROWS = 40
QUERIES = 160
R = random.Random(34)


def nulls(rows, share=0.35):
    return pa.array([R.random() < share for _ in range(rows)])


def ints(rows, required=False):
    return pa.array([None if not required and R.random() < 0.2 else R.randint(0, 5) for _ in range(rows)], pa.int64())


def texts(rows, required=False):
    return pa.array([None if not required and R.random() < 0.2 else R.choice(["", "a", "b", "7"]) for _ in range(rows)])


def structs(rows, required=False, is_deep=True):
    columns = [ints(rows, required), texts(rows, required)]
    fields = [pa.field("a", pa.int64(), not required), pa.field("b", pa.string(), not required)]
    if is_deep:
        columns.append(structs(rows, required, False))
        fields.append(pa.field("c", columns[-1].type))
    return pa.StructArray.from_arrays(columns, fields=fields, mask=nulls(rows))


def offsets(lengths):
    found = [0]
    for length in lengths:
        found.append(found[-1] + length)
    return pa.array(found, pa.int32())


def lists(rows, items):
    at = offsets([R.choice([0, 0, 1, 2, 3]) for _ in range(rows)])
    return pa.ListArray.from_arrays(at, items(at[-1].as_py()), mask=nulls(rows))


def maps(rows, values):
    keys = [R.sample(["a", "b", "c"], R.choice([0, 1, 2])) for _ in range(rows)]
    at = offsets([len(of_row) for of_row in keys])
    flat = [key for of_row in keys for key in of_row]
    return pa.MapArray.from_arrays(at, pa.array(flat, pa.string()), values(len(flat)), mask=nulls(rows))


def table():
    inner = [lists(ROWS, ints), maps(ROWS, ints), texts(ROWS)]
    columns = {
        "id": pa.array(range(ROWS), pa.int64()),
        "k": pa.array([R.choice([None, 0, 1, 2]) for _ in range(ROWS)], pa.int64()),
        "s": structs(ROWS),
        "r": structs(ROWS, required=True),
        "l": lists(ROWS, ints),
        "ll": lists(ROWS, lambda rows: lists(rows, ints)),
        "ls": lists(ROWS, structs),
        "lr": lists(ROWS, lambda rows: structs(rows, True, False)),
        "m": maps(ROWS, ints),
        "ml": maps(ROWS, lambda rows: lists(rows, ints)),
        "ms": maps(ROWS, lambda rows: structs(rows, True, False)),
        "fl": pa.FixedSizeListArray.from_arrays(ints(2 * ROWS), 2, mask=nulls(ROWS)),
        "w": pa.StructArray.from_arrays(inner, names=["l", "m", "t"], mask=nulls(ROWS)),
    }
    return pa.table(columns)


def nullable(data_type):
    if pa.types.is_struct(data_type):
        return pa.struct([pa.field(field.name, nullable(field.type)) for field in data_type])
    if pa.types.is_map(data_type):
        return pa.map_(data_type.key_type, nullable(data_type.item_type))
    if pa.types.is_list(data_type) or pa.types.is_fixed_size_list(data_type):
        return pa.list_(nullable(data_type.value_type))
    return data_type


def avro_type(data_type, names):
    if pa.types.is_struct(data_type):
        name = f"r{len(names)}"
        names.append(name)
        fields = [{"name": field.name, "type": avro_field(field.type, names, field.nullable)} for field in data_type]
        return {"type": "record", "name": name, "fields": fields}
    if pa.types.is_map(data_type):
        return {"type": "map", "values": avro_field(data_type.item_type, names, True)}
    if pa.types.is_list(data_type) or pa.types.is_fixed_size_list(data_type):
        return {"type": "array", "items": avro_field(data_type.value_type, names, True)}
    return {pa.int64(): "long", pa.string(): "string"}[data_type]


def avro_field(data_type, names, is_nullable):
    found = avro_type(data_type, names)
    return ["null", found] if is_nullable else found


def expression(kind, depth=3):
    """A random expression of a kind over the columns of `t`."""
    sub = lambda of: expression(of, depth - 1)
    index = lambda: R.choice(["1", "2"])
    leaves = {
        "int": ["k", "s['a']", "r['a']", "r['c']['a']", "m['a']"],
        "text": ["s['b']", "r['b']", "r['c']['b']", "w['t']"],
        "s": ["s"],
        "r": ["r"],
        "q": ["r['c']"],
        "l": ["l", "fl[1:2]", "w['l']", "ml['a']"],
        "ll": ["ll"],
        "ls": ["ls"],
        "lr": ["lr"],
        "m": ["m", "w['m']"],
        "ml": ["ml"],
        "ms": ["ms"],
    }
    if depth <= 0 or R.random() < 0.15:
        return R.choice(leaves[kind])
    if R.random() < 0.4:
        of = sub(kind)
        return R.choice(
            [
                f"(CASE WHEN k > 0 THEN {of} END)",
                f"(CASE k WHEN 1 THEN {of} WHEN 2 THEN NULL ELSE {sub(kind)} END)",
                f"(CASE WHEN id % 2 = 0 THEN {of} ELSE NULL END)",
                f"coalesce({of}, {sub(kind)})",
                f"nullif({of}, {R.choice(leaves[kind])})" if kind in ("s", "r", "l", "int", "text") else of,
            ]
        )
    made = {
        "int": lambda: R.choice(
            [
                lambda: f"{sub('s')}['a']",
                lambda: f"{sub('r')}['a']",
                lambda: f"{sub('r')}['c']['a']",
                lambda: f"{sub('q')}['a']",
                lambda: f"{sub('l')}[{index()}]",
                lambda: f"{sub('ls')}[{index()}]['a']",
                lambda: f"{sub('lr')}[{index()}]['a']",
                lambda: f"{sub('m')}['{R.choice('abc')}']",
                lambda: f"{sub('ms')}['a']['a']",
                lambda: f"array_length({sub('l')})",
                lambda: f"array_length({sub('ll')})",
                lambda: f"array_position({sub('l')}, 1)",
                lambda: f"({sub('int')} + 1)",
            ]
        )(),
        "text": lambda: R.choice(
            [
                lambda: f"{sub('s')}['b']",
                lambda: f"{sub('r')}['b']",
                lambda: f"{sub('r')}['c']['b']",
                lambda: f"{sub('ls')}[{index()}]['c']['b']",
                lambda: f"{sub('lr')}[{index()}]['b']",
                lambda: f"upper({sub('text')})",
                lambda: f"({sub('text')} || '!')",
            ]
        )(),
        "s": lambda: f"{sub('ls')}[{index()}]",
        "r": lambda: f"[{sub('r')}, r][{index()}]",
        "q": lambda: R.choice([f"{sub('r')}['c']", f"{sub('lr')}[{index()}]", f"{sub('ms')}['b']"]),
        "l": lambda: R.choice(
            [
                lambda: f"array_append({sub('l')}, {sub('int')})",
                lambda: f"array_prepend({sub('int')}, {sub('l')})",
                lambda: f"array_concat({sub('l')}, [{sub('int')}])",
                lambda: f"array_reverse({sub('l')})",
                lambda: f"{sub('l')}[1:2]",
                lambda: f"flatten({sub('ll')})",
                lambda: f"{sub('ll')}[{index()}]",
                lambda: f"map_values({sub('m')})",
                lambda: f"map_extract({sub('m')}, 'a')",
                lambda: f"{sub('ml')}['{R.choice('abc')}']",
            ]
        )(),
        "ll": lambda: R.choice(
            [lambda: f"[{sub('l')}, {sub('l')}]", lambda: f"map_values({sub('ml')})", lambda: f"array_reverse({sub('ll')})"]
        )(),
        "ls": lambda: R.choice([f"array_append({sub('ls')}, {sub('s')})", f"array_reverse({sub('ls')})"]),
        "lr": lambda: R.choice([f"array_reverse({sub('lr')})", f"map_values({sub('ms')})"]),
        "m": lambda: R.choice(leaves["m"]),
        "ml": lambda: R.choice(leaves["ml"]),
        "ms": lambda: R.choice(leaves["ms"]),
    }
    return made[kind]()


def query():
    """A random query over `t`. Its columns are called v, w and so on."""
    some = lambda: expression(R.choice(["int", "text", "int", "l", "s", "r", "ll", "lr"]))
    scalar = lambda: expression(R.choice(["int", "text"]))
    plain = lambda: R.choice(["s", "r", "l", "ls", "lr", "m", "ms", "ll"])
    condition = lambda: R.choice(
        [
            lambda: f"{scalar()} IS NULL",
            lambda: f"{scalar()} IS NOT NULL",
            lambda: f"{expression('int')} > 1",
            lambda: f"{expression('text')} = ''",
            lambda: f"r['a'] {R.choice(['=', '<', '>='])} {R.randint(0, 5)}",
            lambda: f"r['c']['a'] IS {R.choice(['', 'NOT '])}NULL",
            lambda: f"{expression('r')} IS NULL",
            lambda: f"{expression('l')} IS NOT NULL",
        ]
    )()
    return R.choice(
        [
            lambda: f"SELECT id, {some()} v FROM t",
            lambda: f"SELECT id, {some()} v, {some()} w FROM t",
            lambda: f"SELECT id, {some()} v FROM t WHERE {condition()}",
            lambda: f"SELECT id FROM t WHERE {condition()}",
            lambda: f"SELECT id FROM t WHERE {condition()} OR {condition()}",
            lambda: f"SELECT id FROM t WHERE {condition()} AND NOT ({condition()})",
            lambda: f"SELECT {scalar()} v, count(*) w FROM t GROUP BY 1",
            lambda: f"SELECT {expression(R.choice('srl'))} v, count(*) w FROM t GROUP BY 1",
            lambda: f"SELECT DISTINCT {some()} v FROM t",
            lambda: f"SELECT count({scalar()}) v, sum({expression('int')}) w, min({scalar()}) x, count(DISTINCT {some()}) y FROM t",
            lambda: f"SELECT k, max({scalar()}) v FROM t WHERE {condition()} GROUP BY k",
            lambda: f"SELECT x.id v, y.id w FROM (SELECT id, {expression('int')} g FROM t) x JOIN "
            f"(SELECT id, {expression('int')} g FROM t) y ON x.g = y.g AND x.id < y.id",
            lambda: f"SELECT x.id v, y.id w FROM (SELECT id, {(e := expression(R.choice('srl')))} g FROM t) x JOIN "
            f"(SELECT id, {e} g FROM t) y ON (x.g IS NOT DISTINCT FROM y.g) AND x.id < y.id",
            lambda: f"SELECT x.id, y.s['a'] v, y.r['c']['b'] w, y.l[1] x, y.m['a'] y, array_append(y.l, 1) z FROM t x LEFT JOIN "
            f"(SELECT id + 3 j, s, r, l, m FROM t WHERE {condition()}) y ON x.id = y.j",
            lambda: f"SELECT x.i, y.j, x.r['b'] v, y.r['a'] w FROM (SELECT id i, r FROM t WHERE {condition()}) x FULL JOIN "
            f"(SELECT id j, r FROM t WHERE {condition()}) y ON x.i = y.j + 1",
            lambda: f"SELECT id, (lag({(c := R.choice(['s', 'r', 'q']))and expression(c)}) OVER (ORDER BY id))['a'] v FROM t",
            lambda: f"SELECT id, rank() OVER (PARTITION BY {scalar()} ORDER BY id) v FROM t",
            lambda: f"SELECT id, unnest({expression(R.choice(['l', 'll']))}) v FROM t",
            lambda: f"SELECT id, v['a'] a, v['b'] b FROM (SELECT id, unnest({expression(R.choice(['ls', 'lr']))}) v FROM t)",
            lambda: f"SELECT id, v['a'] v FROM (SELECT id, {(c := R.choice('sr'))} v FROM t WHERE k = 1 UNION ALL "
            f"SELECT id, {expression(c)} FROM t)",
            lambda: f"SELECT {(c := plain())} v FROM t WHERE {c} IS NULL",
            lambda: f"SELECT {(c := plain())} v FROM t WHERE {c} IS NOT NULL",
            lambda: f"SELECT flatten(array_agg({expression('l')} ORDER BY id)) v FROM t",
            lambda: f"SELECT (array_agg({expression('r')} ORDER BY id))[{R.randint(1, ROWS)}]['a'] v FROM t",
            lambda: f"SELECT id FROM t WHERE {expression(c := R.choice('srl'))} IN (SELECT {expression(c)} FROM t WHERE id < 20)",
            lambda: f"SELECT {expression(c := R.choice('srl'))} v FROM t EXCEPT SELECT {expression(c)} FROM t WHERE id < 20",
        ]
    )()


def leaves():
    """A struct of which one leaf has nearly all bytes."""
    long = pa.array([bytes(R.randrange(256) for _ in range(200)) for _ in range(ROWS)])
    inner = pa.StructArray.from_arrays([ints(ROWS)], names=["x"], mask=nulls(ROWS))
    columns = [ints(ROWS), inner, long]
    return pa.table({"id": ints(ROWS), "s": pa.StructArray.from_arrays(columns, names=["small", "inner", "long"], mask=nulls(ROWS))})


def dictionaries():
    """Dictionaries whose keys are not null, but point to nulls."""
    encoded = lambda values: pa.array(values).dictionary_encode(null_encoding="encode")
    items = pa.ListArray.from_arrays(offsets([2, 1, 2, 0, 0]), encoded(["a", None, "", None, "a"]))
    mask = pa.array([False, False, True, False, False])
    pair = pa.StructArray.from_arrays([encoded(["a", None, "b", None, ""])], names=["d"], mask=mask)
    columns = {
        "id": pa.array(range(5), pa.int64()),
        "s": encoded(["a", None, "", None, "a"]),
        "i": encoded(pa.array([7, None, 0, None, 7], pa.int64())),
        "l": items,
        "p": pair,
    }
    return pa.table(columns)


def layouts():
    """Other layouts than those of `table`. Rows 1 and 3 are null, with 77 to 79 and texts like "bad" underneath."""
    mask = pa.array([False, True, False, True])
    numbers = pa.array([1, 2, 77, 78, 5, 79], pa.int64())
    texts = pa.array(["1", "bad", "3", "bad"])
    ids = pa.array([0, 0, 1, 1], pa.int8())
    sparse = pa.UnionArray.from_sparse(ids, [pa.array([1, 77, 3, 4]), pa.array(["q", "r", "s", "t"])])
    places = pa.array([0, 1, 0, 1], pa.int32())
    dense = pa.UnionArray.from_dense(ids, places, [pa.array([1, 77]), pa.array(["s", "t"])])
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 4], pa.int32()), pa.array([5, 6], pa.int64()))
    # The second value is null, and a key points to it.
    values = pa.StructArray.from_arrays([pa.array([1, 77, 3])], names=["a"], mask=pa.array([False, True, False]))
    columns = {
        "id": pa.array(range(4), pa.int64()),
        "large": pa.LargeListArray.from_arrays(pa.array([0, 2, 4, 5, 6], pa.int64()), numbers, mask=mask),
        "view": pa.ListViewArray.from_arrays(
            pa.array([0, 2, 4, 5], pa.int32()), pa.array([2, 2, 1, 1], pa.int32()), numbers, mask=mask
        ),
        "encoded": pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None], pa.int8()), values),
        "words": pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), texts, mask=mask),
        "pair": pa.FixedSizeListArray.from_arrays(pa.array(["1", "2", "bad", "bad", "3", "4", "bad", "bad"]), 2, mask=mask),
        "s": pa.StructArray.from_arrays(
            [texts, texts.dictionary_encode(), sparse, dense, runs], names=["t", "d", "sparse", "dense", "runs"], mask=mask
        ),
    }
    return pa.table(columns)


def write_arrow(name, rows):
    with pa.ipc.new_file(name, rows.schema) as file:
        file.write_table(rows)


def main():
    rows = table()
    write_arrow("hidden.arrow", rows)
    # Small row groups and pages, so that filters skip some. The name of items is that of the engine's own lists.
    pa.parquet.write_table(
        rows, "hidden.parquet", row_group_size=10, data_page_size=64, write_page_index=True, use_compliant_nested_type=False
    )
    values = rows.to_pylist(maps_as_pydicts="strict")
    relaxed = pa.schema([pa.field(field.name, nullable(field.type)) for field in rows.schema])
    clean = pa.Table.from_pylist(rows.to_pylist(), schema=relaxed)
    pa.orc.write_table(clean, "hidden.orc")
    names = []
    fields = [{"name": field.name, "type": avro_field(field.type, names, True)} for field in rows.schema]
    schema = {"type": "record", "name": "row", "fields": fields}
    with open("hidden.avro", "wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), values, sync_marker=bytes(16))

    write_arrow("dictionaries.arrow", dictionaries())
    write_arrow("layouts.arrow", layouts())
    pa.parquet.write_table(leaves(), "leaves.parquet")

    judge = duckdb.connect()
    judge.register("t", clean)
    queries = {}
    while len(queries) < QUERIES:
        sql = query()
        if len(sql) < 500:
            answer = judge.execute(sql).fetchall()
            queries[sql] = sorted(json.dumps(row) for row in answer)
    with open("queries.json", "w") as file:
        json.dump([[sql, answer] for sql, answer in queries.items()], file, indent=0)
        file.write("\n")


main()
