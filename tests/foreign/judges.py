"""PostgreSQL and DuckDB as judges: each answers a query over the same tables, in values of one form.

A value is a tuple of a letter for its kind and the value: `n` numbers, `s` text, `b` booleans, `t` and `z` microseconds of
timestamps without and with a zone (a date is its midnight), `c` microseconds of a time of day, `i` microseconds of an interval
(a month has 30 days), `x` bytes, `l` lists. NULL is an empty tuple.
"""

import datetime
import decimal
import re
import threading

import duckdb
import psycopg
import pyarrow

SECONDS = 5
MOST_ROWS = 5_000

DAY = 86_400_000_000
MONTH = 30 * DAY


def civil_days(year, month, day):
    """Days since 1970-01-01 in the proleptic Gregorian calendar, for any year (year 0 is 1 BC)."""
    cycle, year = divmod(year, 400)
    return datetime.date(year + 2000, month, day).toordinal() - datetime.date(1970, 1, 1).toordinal() + (cycle - 5) * 146_097


def clock(text):
    """Microseconds of `[-]hh:mm:ss[.f]`."""
    sign = -1 if text.startswith("-") else 1
    hours, minutes, seconds = (text.lstrip("+-") + ":0:0").split(":")[:3]
    return sign * ((int(hours) * 60 + int(minutes)) * 60_000_000 + int(decimal.Decimal(seconds) * 1_000_000))


def moment(text, kind):
    """A timestamp as PostgreSQL prints it, in UTC."""
    if "infinity" in text:
        return (kind, text)
    found = re.fullmatch(r"(\d+)-(\d\d)-(\d\d)(?: ([\d:.]+))?(?:\+00)?( BC)?", text)
    year = 1 - int(found[1]) if found[5] else int(found[1])
    return (kind, civil_days(year, int(found[2]), int(found[3])) * DAY + (clock(found[4]) if found[4] else 0))


def interval(text):
    """An interval as PostgreSQL prints it."""
    total = 0
    for number, unit in re.findall(r"([+-]?\d+) (year|mon|day)s?", text):
        total += int(number) * {"year": 12 * MONTH, "mon": MONTH, "day": DAY}[unit]
    time = re.search(r"[+-]?\d+:[\d:.]+", text)
    return ("i", total + (clock(time[0]) if time else 0))


def value(item):
    """A value that a judge's Python client gave."""
    if item is None:
        return ()
    if isinstance(item, tuple) and len(item) == 2 and item[0] in ("t", "z", "i", "c"):
        return item
    if isinstance(item, bool):
        return ("b", item)
    if isinstance(item, (int, float, decimal.Decimal)):
        return ("n", item)
    if isinstance(item, str):
        return ("s", item)
    if isinstance(item, (bytes, bytearray, memoryview)):
        return ("x", bytes(item).hex())
    if isinstance(item, datetime.datetime):
        kind = "t" if item.tzinfo is None else "z"
        item = item if item.tzinfo is None else item.astimezone(datetime.timezone.utc).replace(tzinfo=None)
        return (kind, (item - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1))
    if isinstance(item, datetime.date):
        return ("t", civil_days(item.year, item.month, item.day) * DAY)
    if isinstance(item, datetime.time):
        return ("c", clock(re.split("[+-]", item.isoformat())[0]))
    if isinstance(item, datetime.timedelta):
        return ("i", item // datetime.timedelta(microseconds=1))
    if isinstance(item, dict):
        return ("l", tuple(value(part) for part in item.values()))
    if isinstance(item, (list, tuple)):
        return ("l", tuple(value(part) for part in item))
    return ("s", str(item))


class Refused(Exception):
    """A judge has no answer."""


def values(rows):
    """The rows that a judge's Python client gave, in values of one form."""
    if len(rows) > MOST_ROWS:
        raise Refused("too many rows")
    try:
        return [[value(item) for item in row] for row in rows]
    except (ArithmeticError, ValueError, TypeError) as error:
        raise Refused(f"a value that has no form here: {error}") from error


class DuckDb:
    """DuckDB, with the choices of PostgreSQL."""

    name = "DuckDB"

    def __init__(self):
        self.connection = duckdb.connect()
        self.connection.execute(
            "SET TimeZone = 'UTC'; SET threads = 1; SET memory_limit = '1GB'; SET default_null_order = 'NULLS LAST';"
            "SET integer_division = true"
        )

    def run(self, sql):
        timer = threading.Timer(SECONDS, self.connection.interrupt)
        timer.start()
        try:
            return self.connection.execute(sql)
        except (duckdb.Error, RuntimeError) as error:
            if isinstance(error, duckdb.InternalException):
                self.__init__()
            raise Refused(str(error)) from error
        finally:
            timer.cancel()

    def rows(self, sql):
        try:
            cursor = self.run(sql)
            types = [str(column[1]) for column in cursor.description or ()]
            rows = cursor.fetchmany(MOST_ROWS + 1)
        except (duckdb.Error, RuntimeError, OverflowError, ValueError, AttributeError) as error:
            raise Refused(str(error)) from error
        # Its rows have them as dictionaries, like structs; ours as texts.
        if any("MAP(" in kind for kind in types):
            raise Refused("a map")
        return values(rows)

    def tables(self):
        rows = self.run("SELECT table_name FROM information_schema.tables WHERE table_schema = 'main'").fetchall()
        return [name for (name,) in rows]

    def table(self, name):
        """An Arrow table of a table's rows."""
        try:
            rows = self.run(f'SELECT * FROM "{name}"')
            # Arrow has no type for them; they come as decimals of 38 digits.
            if any("HUGEINT" in str(column[1]) for column in rows.description or ()):
                raise Refused(f"a type of {name} has no form in Parquet")
            table = rows.to_arrow_table()
        except (duckdb.Error, pyarrow.ArrowException) as error:
            raise Refused(str(error)) from error
        return table

    def load(self, name, path):
        self.run(f"CREATE OR REPLACE TABLE \"{name}\" AS SELECT * FROM read_parquet('{path}')")


class Postgres:
    """PostgreSQL, in a database of its own."""

    name = "PostgreSQL"

    def __init__(self, address):
        self.connection = psycopg.connect(address, autocommit=True)
        self.execute("SET timezone = 'UTC'; SET intervalstyle = 'postgres'; SET datestyle = 'ISO, YMD'; SET extra_float_digits = 1")
        self.execute(f"SET statement_timeout = '{SECONDS}s'; SET max_parallel_workers_per_gather = 0; SET jit = off")
        adapters = self.connection.adapters

        def loader(read):
            class Loader(psycopg.adapt.Loader):
                def load(self, data):
                    return read(bytes(data).decode())

            return Loader

        for name, read in {
            "date": lambda text: moment(text, "t"),
            "timestamp": lambda text: moment(text, "t"),
            "timestamptz": lambda text: moment(text, "z"),
            "interval": interval,
            "time": lambda text: ("c", clock(text)),
            "bpchar": lambda text: text,
            "json": lambda text: text,
            "jsonb": lambda text: text,
            "uuid": lambda text: text,
        }.items():
            adapters.register_loader(name, loader(read))
        self.empty()

    def execute(self, sql):
        try:
            return self.connection.execute(sql)
        except (psycopg.Error, UnicodeError, ValueError) as error:
            raise Refused(str(error)) from error

    def empty(self):
        """Drops all tables."""
        self.execute("DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public; GRANT ALL ON SCHEMA public TO public")
        self.execute("SET search_path = public")
        # Types of other engines.
        for name, base in {"double": "double precision", "string": "text", "tinyint": "smallint", "datetime": "timestamp", "blob": "bytea", "hugeint": "numeric"}.items():
            self.execute(f"CREATE DOMAIN {name} AS {base}")

    run = execute

    def rows(self, sql):
        cursor = self.execute(sql)
        try:
            rows = cursor.fetchmany(MOST_ROWS + 1)
        except (psycopg.Error, decimal.DecimalException, ValueError, TypeError, OverflowError) as error:
            raise Refused(str(error)) from error
        return values(rows)

    def tables(self):
        kinds = "'r', 'v', 'm', 'p'"
        rows = self.execute(f"SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ({kinds})")
        return [name for (name,) in rows.fetchall()]

    def table(self, name):
        columns = self.execute(
            "SELECT attname, format_type(atttypid, NULL), atttypmod FROM pg_attribute WHERE attrelid = "
            f"'public.\"{name}\"'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        ).fetchall()
        types = [arrow_type(kind, modifier) for _, kind, modifier in columns]
        if not columns or None in types:
            raise Refused(f"a type of {name} has no form in Parquet")
        rows = self.rows(f'SELECT * FROM public."{name}"')
        arrays = []
        for place, data_type in enumerate(types):
            try:
                arrays.append(array([row[place] for row in rows], data_type))
            except (pyarrow.ArrowException, decimal.DecimalException, TypeError, ValueError, OverflowError) as error:
                raise Refused(f"{name}: {error}") from error
        return pyarrow.table(arrays, names=[column for column, _, _ in columns])

    def load(self, table, name):
        """Creates a table with the rows of an Arrow table."""
        types = [postgres_type(field.type) for field in table.schema]
        if None in types:
            raise Refused(f"a type of {name} has no form in PostgreSQL")
        columns = ", ".join(f'"{field.name}" {kind}' for field, kind in zip(table.schema, types))
        self.execute(f'DROP TABLE IF EXISTS "{name}" CASCADE')
        self.execute(f'CREATE TABLE "{name}" ({columns})')
        try:
            with self.connection.cursor().copy(f'COPY "{name}" FROM STDIN') as copy:
                copy.set_types([kind.split("(")[0] for kind in types])
                for row in table.to_pylist():
                    copy.write_row(list(row.values()))
        except (psycopg.Error, ValueError, TypeError, OverflowError, LookupError) as error:
            raise Refused(str(error)) from error


ARROW_TYPES = {
    "boolean": pyarrow.bool_(),
    "smallint": pyarrow.int16(),
    "integer": pyarrow.int32(),
    "bigint": pyarrow.int64(),
    "real": pyarrow.float32(),
    "double precision": pyarrow.float64(),
    "text": pyarrow.string(),
    "name": pyarrow.string(),
    '"char"': pyarrow.string(),
    "character varying": pyarrow.string(),
    "bytea": pyarrow.binary(),
    "date": pyarrow.date32(),
    "timestamp without time zone": pyarrow.timestamp("us"),
    "timestamp with time zone": pyarrow.timestamp("us", "UTC"),
    "time without time zone": pyarrow.time64("us"),
}


def arrow_type(kind, modifier):
    """The Arrow type of a PostgreSQL type, or None."""
    if kind.endswith("[]"):
        items = arrow_type(kind[:-2], modifier)
        return items and pyarrow.list_(items)
    if kind == "numeric" and modifier >= 4:
        precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
        return pyarrow.decimal128(precision, scale) if precision <= 38 and scale <= precision else None
    if kind == "numeric":
        return pyarrow.decimal128(38, 10)
    return ARROW_TYPES.get(kind)


def array(values, data_type):
    def plain(item):
        if item == ():
            return None
        if item[0] == "l":
            return [plain(part) for part in item[1]]
        return item[1]

    items = [plain(item) for item in values]
    if pyarrow.types.is_decimal(data_type):
        items = [item if item is None else decimal.Decimal(item) for item in items]
    if pyarrow.types.is_binary(data_type):
        items = [item if item is None else bytes.fromhex(item) for item in items]
    if pyarrow.types.is_date(data_type):
        items = [item if item is None else item // DAY for item in items]
        return pyarrow.array(items, pyarrow.int32()).cast(data_type)
    return pyarrow.array(items, data_type)


def postgres_type(data_type):
    """The PostgreSQL type of an Arrow type, or None."""
    types = pyarrow.types
    if types.is_list(data_type) or types.is_large_list(data_type):
        items = postgres_type(data_type.value_type)
        return items and f"{items}[]"
    if types.is_decimal(data_type):
        return f"numeric({data_type.precision}, {data_type.scale})"
    for test, name in (
        (types.is_boolean, "boolean"),
        (types.is_int8, "smallint"),
        (types.is_int16, "smallint"),
        (types.is_int32, "integer"),
        (types.is_int64, "bigint"),
        (types.is_uint8, "smallint"),
        (types.is_uint16, "integer"),
        (types.is_uint32, "bigint"),
        (types.is_float32, "real"),
        (types.is_float64, "double precision"),
        (types.is_string, "text"),
        (types.is_large_string, "text"),
        (types.is_binary, "bytea"),
        (types.is_date, "date"),
        (types.is_time, "time"),
    ):
        if test(data_type):
            return name
    if types.is_timestamp(data_type):
        return "timestamptz" if data_type.tz else "timestamp"
    return None
