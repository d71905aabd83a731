"""Random queries."""

import explained
from data import BYTES, COMPUTED, FAR_TIMES, INTERVALS, KINDS, LENGTHS, LISTS, NUMBERS, PATTERNS, STORED_ONLY, TEXTS, TIMES, WIDE, ZONES
from tree import Expression, Items, Query, Relation


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


class Generator:
    """Makes queries over some tables: names, and for each column its name and kind."""

    def __init__(self, random, tables):
        self.random = random
        self.tables = tables
        self.aliases = 0
        self.budget = 0

    # Chance

    def chance(self, share):
        return self.random.random() < share

    def pick(self, *weighted):
        """One of some (weight, value)."""
        values = [value for _, value in weighted]
        return self.random.choices(values, weights=[weight for weight, _ in weighted])[0]

    # Queries

    def query(self):
        """A whole query, and whether its order is fixed."""
        self.aliases, self.budget = 0, self.random.choice([0, 3, 3, 6, 6, 9])
        if self.chance(0.06):
            return self.ordered_inside(), True
        if self.chance(0.02):
            return self.varying(), False
        ctes = []
        if self.chance(0.1):
            ctes.append((f"c{self.alias()}", self.select([], self.kinds())))
        sources = {name: [(f"o{n}", kind) for n, kind in enumerate(query.kinds)] for name, query in ctes}
        self.ctes = sources
        query = self.select([], self.kinds())
        query.ctes = ctes
        if self.chance(0.15):
            query.operator = self.set_operator()
            query.other = self.select([], query.kinds, exact=True)
        ordered = False
        if self.chance(0.35):
            columns = list(range(1, len(query.kinds) + 1))
            self.random.shuffle(columns)
            query.order = Items(
                [Expression("order", f"{column} {self.direction()}") for column in columns],
                least=len(columns),
            )
            ordered = True
            if self.chance(0.5):
                query.limit = self.random.choice([0, 1, 2, 3, 5, 10])
                if self.chance(0.3):
                    query.limit = f"{query.limit} OFFSET {self.random.choice([0, 1, 2, 4])}"
        self.ctes = {}
        return query, ordered

    ctes = {}

    def ordered_inside(self):
        """A query over a derived table with ORDER BY, whose order is kept."""
        inner = self.select([], self.kinds(), exact=True)
        columns = range(1, len(inner.kinds) + 1)
        inner.order = Items([Expression("order", f"{n} {self.direction()}") for n in columns], least=len(inner.kinds))
        inner.keeps_order = True
        query = Query(Items([Expression("item", "*")]), [Relation(inner, "x")], inner.kinds)
        if self.chance(0.3):
            query.where = self.plain_boolean([(f"x.o{n}", kind) for n, kind in enumerate(inner.kinds)], 1)
        if self.chance(0.5):
            query.limit = self.random.choice([0, 1, 2, 5])
        query.keeps_order = True
        return query

    def varying(self):
        """A query with random numbers that is used twice: each row is in one of two parts."""
        table = self.random.choice(list(self.tables))
        parts = "SELECT u FROM s WHERE half UNION ALL SELECT u FROM s WHERE NOT half"
        ours = f"WITH s AS (SELECT u, random() < 0.5 AS half FROM {table}) {parts}"
        query = Query(Items([Expression("item", f"{{{{u FROM ({ours}) x||u FROM {table}}}}}")]), [], ["int"])
        return query

    def direction(self):
        return self.random.choice(["ASC", "DESC"]) + self.random.choice([" NULLS FIRST", " NULLS LAST"])

    def set_operator(self):
        return self.random.choice(["UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"])

    def kinds(self):
        names = list(KINDS) + COMPUTED
        weights = [6, 2, 4, 4, 4, 1, 1, 1, 2, 0.7, 0.7, 0.5, 0.3, 0.5, 0.5, 0.5]
        return self.random.choices(names, weights=weights, k=self.random.randint(1, 4))

    def alias(self):
        self.aliases += 1
        return self.aliases

    def select(self, outer, kinds, exact=False):
        """A SELECT of some kinds of columns."""
        relations, scope = self.relations(outer)
        visible = scope + outer
        depth = 1 if outer else self.pick((2, 1), (2, 2), (1, 3))
        way = self.pick((6, "plain"), (3, "group"), (1.5, "whole"), (1.5, "window"))
        query = Query(Items([]), relations, kinds)
        if self.chance(0.65):
            query.where = self.boolean(visible, depth)
        if way == "group":
            self.grouped(query, scope, outer)
        elif way == "whole":
            query.select = Items([self.aggregate(kind, scope) for kind in kinds])
            if self.chance(0.3):
                query.having = self.boolean_of_aggregates(scope, [])
        elif way == "window":
            unique = [name for name, kind in scope if name.endswith(".u")]
            # A query in FROM has no number for each row: nothing tells its rows apart.
            unique = unique if len(unique) == len(relations) else []
            query.select = Items([self.window(kind, visible, unique) for kind in kinds])
        else:
            query.select = Items([self.value(kind, visible, 2) for kind in kinds])
            query.distinct = self.chance(0.2)
        for number, item in enumerate(query.select.items):
            query.select.items[number] = Expression("item", item, f" AS o{number}")
        query.select.least = len(kinds) if exact else 1
        return query

    def grouped(self, query, scope, outer):
        kinds = query.kinds
        keys = [self.key(scope) for _ in range(self.random.randint(1, 3))] if scope else []
        keys = list({name.sql(): (name, kind) for name, kind in keys}.values())
        names = [name for name, _ in keys]
        form = self.pick((6, "plain"), (2, "sets"), (1, "rollup"), (1, "cube"))
        if not names:
            query.select = Items([self.aggregate(kind, scope) for kind in kinds])
            return
        if form == "plain":
            query.group = Items(names)
        elif form == "sets":
            sets = [names, []] + [[name] for name in names]
            sets = self.random.sample(sets, self.random.randint(1, len(sets)))
            # Each key is in one of them, or it is no key.
            if not all(any(name in chosen for chosen in sets) for name in names):
                sets.append(names)
            if self.chance(0.15):
                sets.append(self.random.choice(sets))
            sets = [Expression("key", "(", Items(chosen, least=len(chosen)), ")") for chosen in sets]
            query.group = Expression("keys", "GROUPING SETS (", Items(sets), ")")
        else:
            query.group = Expression("keys", f"{form.upper()} (", Items(names), ")")
        items = []
        for kind in kinds:
            same = [name for name, of in keys if of == kind]
            if same and self.chance(0.6):
                items.append(Expression(kind, self.random.choice(same)))
            elif kind == "int" and form != "plain" and self.chance(0.3):
                items.append(Expression(kind, "GROUPING(", self.random.choice(names), ")"))
            elif self.chance(0.2):
                items.append(self.value(kind, keys + outer, 1))
            else:
                items.append(self.aggregate(kind, scope))
        query.select = Items(items)
        if self.chance(0.3):
            query.having = self.boolean_of_aggregates(scope, keys)

    def key(self, scope):
        """A key of groups: a column, or an expression of columns. Where it is shown it is the same object, so both get smaller."""
        name, kind = self.random.choice(scope)
        if self.chance(0.35):
            kind = self.random.choice([kind, kind, "int", "float", *COMPUTED])
            budget, self.budget = self.budget, 0
            value = self.value(kind, scope, 2)
            self.budget = budget
            # A number alone is the place of a column.
            if any(name in value.sql() for name, _ in scope):
                is_column = any(name == value.sql() for name, _ in scope)
                return value if is_column else Expression(kind, "(", value, ")"), kind
            name, kind = self.random.choice(scope)
        return Expression(kind, name), kind

    def relations(self, outer):
        count = self.pick((5, 1), (4, 2), (1.5, 3))
        relations, scope = [], []
        for number in range(count):
            alias = f"r{self.alias()}"
            source, columns = self.source()
            here = [(f"{alias}.{name}", kind) for name, kind in columns]
            if number == 0:
                relations.append(Relation(source, alias))
            else:
                join = self.pick(
                    (3, "JOIN"), (3, "LEFT JOIN"), (3, "RIGHT JOIN"), (2, "FULL JOIN"), (1, "CROSS JOIN"),
                )
                on = None if join == "CROSS JOIN" else self.on(scope, here)
                if number == 1 and join not in ("CROSS JOIN", "FULL JOIN") and self.chance(0.08):
                    on = self.using(scope, here) or on
                relations.append(Relation(source, alias, join, on))
            scope += here
        return relations, scope

    def source(self):
        if self.ctes and self.chance(0.5):
            name = self.random.choice(list(self.ctes))
            return name, self.ctes[name]
        if self.budget > 2 and self.chance(0.15):
            self.budget -= 3
            query = self.select([], self.kinds(), exact=True)
            if self.chance(0.3):
                columns = range(1, len(query.kinds) + 1)
                query.order = Items([Expression("order", f"{n} {self.direction()}") for n in columns], least=len(columns))
                if self.chance(0.5):
                    query.limit = self.random.choice([0, 1, 3, 5])
            return query, [(f"o{n}", kind) for n, kind in enumerate(query.kinds)]
        if self.chance(0.12):
            return self.layers()
        name = self.random.choice(list(self.tables))
        return name, self.tables[name]

    def layers(self):
        """Queries in queries whose columns have the names of those that they are computed from."""
        table = self.random.choice(list(self.tables))
        columns = self.random.sample(self.tables[table], min(len(self.tables[table]), self.random.randint(1, 3)))
        scope = [(f"x{n}", kind) for n, (_, kind) in enumerate(columns)]
        text = f"(SELECT {', '.join(f'{column} AS x{n}' for n, (column, _) in enumerate(columns))} FROM {table})"
        budget, self.budget = self.budget, 0
        items = None
        for _ in range(self.random.randint(2, 4)):
            if items is None or self.chance(0.4):
                # Values that are computed again and again must not grow without end.
                items = [self.value(kind, scope, 0 if kind in ("int", "text", "decimal") and self.chance(0.5) else 1) for _, kind in columns]
            text = self.layer(items, scope, text)
        self.budget = budget
        return text, scope

    def layer(self, items, scope, text):
        """A query of `text` with these items, or with groups, whose names are those of its columns."""
        form = self.pick((5, "plain"), (3, "unnest"), (1, "distinct"), (2, "groups"))
        # The engine computes what is beside unnest below it, under a name that a column may have, too.
        rows = f", unnest({self.literal('list')}) AS n" if form == "unnest" else ""
        distinct = "DISTINCT " if form == "distinct" else ""
        groups = ""
        if form == "groups" and len(scope) > 1:
            keys = self.random.sample(scope, self.random.randint(1, len(scope) - 1))
            items = [self.value(kind, keys, 1) if (name, kind) in keys else self.aggregate(kind, scope) for name, kind in scope]
            groups = f" GROUP BY {', '.join(name for name, _ in keys)}"
        return f"(SELECT {distinct}{', '.join(f'{item} AS {name}' for item, (name, _) in zip(items, scope))}{rows} FROM {text}{groups})"

    def on(self, scope, here):
        """A condition of a join: mostly of keys that are equal, mostly with more."""
        same = [(a, b) for a, kind in scope for b, other in here if kind == other and kind != "bool"]
        parts = []
        if same and self.chance(0.75):
            for a, b in self.random.sample(same, min(len(same), self.pick((4, 1), (1, 2)))):
                operator = self.pick((8, "="), (1, "IS NOT DISTINCT FROM"), (1, "<"), (1, "<="), (1, "<>"))
                parts.append(Expression("bool", f"({a} {operator} {b})"))
        if scope and self.chance(0.1):
            kind = self.random.choice(["float", "float", "int", "text", *COMPUTED])
            budget, self.budget = self.budget, 0
            parts.append(Expression("bool", "(", self.value(kind, scope, 1), " = ", self.value(kind, here, 1), ")"))
            self.budget = budget
        if not parts or self.chance(0.3):
            parts.append(self.plain_boolean(scope + here, 2))
        if len(parts) == 1:
            return parts[0]
        return Expression("bool", "(", Items(parts, self.pick((5, " AND "), (1, " OR "))), ")")

    def using(self, scope, here):
        """The name of a column of both sides."""
        both = [name.split(".")[1] for name, kind in scope if any(other.split(".")[1] == name.split(".")[1] and kind == of for other, of in here)]
        return Expression("using", self.random.choice(both)) if both else None

    # Booleans

    def plain_boolean(self, scope, depth):
        """A condition without subqueries."""
        budget, self.budget = self.budget, 0
        condition = self.boolean(scope, depth)
        self.budget = budget
        return condition

    def boolean(self, scope, depth):
        if depth > 0 and self.chance(0.5):
            inner = lambda: self.boolean(scope, depth - 1)
            form = self.pick((4, "and"), (4, "or"), (2, "not"), (1, "case"), (1, "is"), (0.5, "distinct"), (0.5, "coalesce"), (0.3, "="))
            if form in ("and", "or"):
                return Expression("bool", "(", Items([inner() for _ in range(self.pick((4, 2), (1, 3)))], f" {form.upper()} "), ")")
            if form == "not":
                return Expression("bool", "(NOT ", inner(), ")")
            if form == "case":
                parts = ["CASE WHEN ", inner(), " THEN ", inner()]
                if self.chance(0.3):
                    parts += [" WHEN ", inner(), " THEN ", inner()]
                if self.chance(0.7):
                    parts += [" ELSE ", inner()]
                return Expression("bool", "(", *parts, " END)")
            if form == "is":
                return Expression("bool", "(", inner(), " IS ", self.random.choice(["", "NOT "]), self.random.choice(["TRUE", "FALSE", "NULL", "UNKNOWN"]), ")")
            if form == "coalesce":
                return Expression("bool", "coalesce(", inner(), ", ", inner(), ")")
            if form == "=":
                return Expression("bool", "(", inner(), self.random.choice([" = ", " <> "]), inner(), ")")
            # IS DISTINCT FROM binds tighter than AND.
            return Expression("bool", "(", self.value("int", scope, 0), " IS ", self.random.choice(["", "NOT "]), "DISTINCT FROM ", self.value("int", scope, 0), self.random.choice([" AND ", " OR "]), inner(), ")")
        return self.predicate(scope)

    def predicate(self, scope):
        kind = self.random.choice([kind for _, kind in scope] or ["int"])
        if self.chance(0.08):
            kind = self.random.choice(COMPUTED)
        negated = self.random.choice(["", "NOT "])
        forms = [(5, "compare"), (2, "null"), (1.5, "between"), (2, "list"), (1, "distinct")]
        if kind == "text":
            forms.append((3, "like"))
        if kind == "bool":
            forms.append((4, "bool"))
        if self.budget > 2:
            forms += [(2.5, "in"), (2, "exists"), (1.5, "scalar"), (0.7, "any")]
            # Lists are not compared with the rows of a query.
            if kind == "list":
                forms = [form for form in forms if form[1] == "compare"]
        forms.append((0.3, "using"))
        if kind == "list":
            forms.append((3, "item"))
        form = self.pick(*forms)
        if form == "bool":
            return self.value("bool", scope, 0)
        if form == "using":
            return self.in_join_by_name(scope, negated)
        if form == "item":
            return Expression("bool", "(", self.value("int", scope, 0), " = ANY(", self.value("list", scope, 0), "))")
        if form == "null":
            return Expression("bool", "(", self.value(kind, scope, 1), f" IS {negated}NULL)")
        if form == "between":
            return Expression("bool", "(", self.value(kind, scope, 1), f" {negated}BETWEEN ", self.value(kind, scope, 0), " AND ", self.value(kind, scope, 0), ")")
        if form == "list":
            count = self.pick((1, 1), (2, 2), (1, 3), (1, 5))
            items = [self.literal(kind) if self.chance(0.8) else self.value(kind, scope, 0) for _ in range(count)]
            if self.chance(0.1):
                items.append(Expression(kind, "NULL"))
            return Expression("bool", "(", self.value(kind, scope, 0 if self.chance(0.8) else 1), f" {negated}IN (", Items(items), "))")
        if form == "like":
            operator = self.random.choice(["LIKE", "ILIKE"])
            return Expression("bool", "(", self.value("text", scope, 0), f" {negated}{operator} ", quoted(self.random.choice(PATTERNS)), " ESCAPE '\\')")
        if form == "in":
            self.budget -= 3
            query = self.subquery(scope, [kind])
            return Expression("bool", "(", self.value(kind, scope, 0 if self.chance(0.8) else 1), f" {negated}IN (", query, "))")
        if form == "any":
            self.budget -= 3
            operator = self.operator()
            quantifier = self.random.choice(["ANY", "ALL"])
            return Expression("bool", "(", self.value(kind, scope, 0), f"{operator}{quantifier} (", self.subquery(scope, [kind]), "))")
        if form == "exists":
            self.budget -= 3
            return Expression("bool", f"({negated}EXISTS (", self.subquery(scope, ["int"], exists=True), "))")
        if form == "scalar":
            self.budget -= 3
            return Expression("bool", "(", self.value(kind, scope, 0), self.operator(), self.scalar(scope, kind), ")")
        right = kind
        if kind in NUMBERS and self.chance(0.3):
            right = self.random.choice(NUMBERS)
        if kind == "date" and self.chance(0.3):
            right = "time"
        if kind == "span" and self.chance(0.3):
            right = "interval"
        if form == "distinct":
            return Expression("bool", "(", self.value(kind, scope, 1), f" IS {negated}DISTINCT FROM ", self.value(right, scope, 1), ")")
        return Expression("bool", "(", self.value(kind, scope, 1), self.operator(), self.value(right, scope, 1), ")")

    def in_join_by_name(self, scope, negated):
        """A subquery over a join with USING or NATURAL: its key is one column, and not a column of the query around."""
        first, second = (self.random.choice(list(self.tables)) for _ in range(2))
        key = self.random.choice(["u", "k"])
        join = self.pick((2, f"{second} AS j2 USING ({key})"), (1, f"(SELECT {key} FROM {second}) AS j2"))
        join = f"JOIN {join}" if "USING" in join else f"NATURAL JOIN {join}"
        condition = self.random.choice(["", f" WHERE {key} > 1", f" WHERE j1.u < 5", f" WHERE {key} IS NOT NULL"])
        return Expression("bool", "(", self.value("int", scope, 0), f" {negated}IN (SELECT {key} FROM {first} AS j1 {join}{condition}))")

    def operator(self):
        return self.random.choice([" = ", " = ", " <> ", " < ", " <= ", " > ", " >= "])

    def subquery(self, scope, kinds, exists=False):
        """A query in an expression: correlated or not."""
        outer = scope if self.chance(0.5) else []
        query = self.select(outer, kinds, exact=True)
        if exists and isinstance(query.group, Expression):
            # DuckDB forgets here that the empty grouping set has a row of no rows.
            query.group = None
            query.select = Items([Expression("item", "count(*) AS o0")])
        if self.chance(0.1):
            query.order = Items([Expression("order", f"{n} {self.direction()}") for n in range(1, len(kinds) + 1)], least=len(kinds))
            query.limit = self.random.choice([0, 1, 3])
        elif self.chance(0.05):
            query.operator, query.other = self.set_operator(), self.select([], kinds, exact=True)
        return query

    def scalar(self, scope, kind):
        """A subquery of one row: an aggregate of all."""
        relations, inner = self.relations([])
        outer = scope if self.chance(0.5) else []
        query = Query(Items([Expression("item", self.aggregate(kind, inner), " AS o0")]), relations, [kind])
        if outer and inner:
            query.where = self.boolean(inner + outer, 1)
        elif self.chance(0.6):
            query.where = self.boolean(inner, 1)
        if self.chance(0.1):
            query.having = self.boolean_of_aggregates(inner, [])
        return Expression(kind, "(", query, ")")

    def boolean_of_aggregates(self, scope, keys):
        parts = []
        for _ in range(self.pick((3, 1), (1, 2))):
            if keys and self.chance(0.4):
                parts.append(self.boolean(keys, 1))
            else:
                kind = self.random.choice(["int", "float", "text"])
                right = self.literal(kind)
                if self.budget > 3 and self.chance(0.3):
                    self.budget -= 3
                    right = self.scalar([], kind)
                parts.append(Expression("bool", "(", self.aggregate(kind, scope), self.operator(), right, ")"))
        return Expression("bool", "(", Items(parts, self.random.choice([" AND ", " OR "])), ")")

    # Aggregates and windows

    def aggregate(self, kind, scope):
        """An aggregate of a kind, over columns of this query: with others it would be one of the query around."""
        budget, self.budget = self.budget, 0
        argument = lambda of: self.value(of, scope, 1)
        filtered = Expression("filter", " FILTER (WHERE ", self.boolean(scope, 1), ")") if self.chance(0.15) else ""
        distinct = "DISTINCT " if self.chance(0.2) else ""
        if kind == "int":
            form = self.pick((2, "star"), (3, "count"), (3, "sum"), (2, "min"))
            if form == "star":
                result = Expression(kind, "count(*)", filtered)
            elif form == "count":
                of = self.random.choice([kind for _, kind in scope] or ["int"])
                result = Expression(kind, f"count({distinct}", argument(of), ")", filtered)
            elif form == "sum":
                result = Expression(kind, f"sum({distinct}", argument("int"), ")", filtered)
            else:
                result = Expression(kind, self.random.choice(["min(", "max("]), argument("int"), ")", filtered)
        elif kind == "float" and self.chance(0.6):
            of = self.random.choice(["int", "float"])
            distinct = distinct if of == "int" else ""
            name = self.pick((3, "avg"), (2, "sum")) if of == "float" else "avg"
            result = Expression(kind, f"{name}({distinct}", argument(of), ")", filtered)
        elif kind == "bool":
            result = Expression(kind, self.random.choice(["bool_and(", "bool_or("]), argument("bool"), ")", filtered)
        elif kind == "text" and "text" in [of for _, of in scope] and self.chance(0.3):
            text = Expression("text", self.random.choice([name for name, of in scope if of == "text"]))
            result = Expression(kind, "string_agg(", text, ", ',' ORDER BY ", text, " ", self.direction(), ")", filtered)
        elif kind == "list":
            # There is no min of lists. In PostgreSQL, lists of one length would be the rows of a list.
            value = self.value(kind, scope, 0)
            order = f" ORDER BY {value} {self.direction()})"
            of_texts = f"CAST((array_agg(CAST({value} AS text){order})[1] AS BIGINT[])"
            result = Expression(kind, f"{{{{first_value({value}{order}||first({value}{order}||{of_texts}}}}}")
        else:
            result = Expression(kind, self.random.choice(["min(", "max("]), argument(kind), ")", filtered)
        self.budget = budget
        return result

    def window(self, kind, scope, unique):
        """A window function of a kind; where rows of the same rank could be told apart, all columns decide the order."""
        # There is no min of lists.
        if not scope or self.chance(0.2) or kind == "list" and not unique:
            return self.value(kind, scope, 1)
        budget, self.budget = self.budget, 0
        partition = f"PARTITION BY {self.random.choice(scope)[0]} " if self.chance(0.6) else ""
        total = ", ".join([f"{self.random.choice(scope)[0]} {self.direction()}"] + [f"{name} {self.direction()}" for name in unique])
        some = f"{self.random.choice(scope)[0]} {self.direction()}"
        frames = ["", " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", " ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", " ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING", " GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING"]
        # A table that is joined twice, or none that has a number for each row, leaves rows that nothing tells apart.
        is_total = bool(unique)
        form = self.pick((2, "rank"), (3, "aggregate"), (1, "all"), (2 if is_total else 0, "row"))
        form = "row" if kind == "list" else form
        if form == "rank" and kind == "int":
            result = Expression(kind, self.random.choice(["rank()", "dense_rank()"]), f" OVER ({partition}ORDER BY {some})")
        elif form == "rank" and kind == "float":
            result = Expression(kind, self.random.choice(["percent_rank()", "cume_dist()"]), f" OVER ({partition}ORDER BY {some})")
        elif form == "row" and kind == "int" and self.chance(0.5):
            result = Expression(kind, f"row_number() OVER ({partition}ORDER BY {total})")
        elif form == "row" and kind != "bool":
            name = self.random.choice(["lag(", "lead(", "first_value(", "last_value("])
            frame = self.random.choice(frames[:5]) if name in ("first_value(", "last_value(") else ""
            result = Expression(kind, name, self.value(kind, scope, 0), f") OVER ({partition}ORDER BY {total}{frame})")
        elif form == "all":
            result = Expression(kind, self.plain_aggregate(kind, scope), f" OVER ({partition.strip()})")
        else:
            frame = self.random.choice(frames) if is_total else ""
            result = Expression(kind, self.plain_aggregate(kind, scope), f" OVER ({partition}ORDER BY {total if is_total else some}{frame})")
        self.budget = budget
        return result

    def plain_aggregate(self, kind, scope):
        if kind == "int":
            name = self.random.choice(["count(", "sum(", "min(", "max("])
        elif kind == "bool":
            name = self.random.choice(["bool_and(", "bool_or("])
        elif kind == "float":
            name = self.random.choice(["min(", "max(", "sum(", "avg(", "var_pop(", "stddev_samp("])
        else:
            name = self.random.choice(["min(", "max("])
        return Expression(kind, name, self.value(kind, scope, 0), ")")

    # Values

    def literal(self, kind):
        if kind == "int":
            return Expression(kind, str(self.random.choice([0, 1, 2, 3, -1, 5, 10, 100])))
        if kind == "small":
            return Expression(kind, f"CAST({self.random.choice([0, 1, 2, 5])} AS INTEGER)")
        if kind == "float" and self.chance(0.15):
            infinity = "CAST('Infinity' AS DOUBLE)"
            return Expression(kind, self.random.choice([f"({infinity} - {infinity})", f"({infinity} * 0)", "(- CAST('NaN' AS DOUBLE))"]))
        if kind == "interval":
            return Expression(kind, f"INTERVAL '{self.random.choice(LENGTHS)}'")
        if kind == "span":
            return Expression(kind, f"(TIMESTAMP '{self.random.choice(TIMES)}' - TIMESTAMP '{self.random.choice(TIMES)}')")
        if kind == "float":
            return Expression(kind, f"CAST('{self.random.choice(['0', '-0.0', '1', '1.5', '-2.25', 'NaN', 'Infinity', '10'])}' AS DOUBLE)")
        if kind == "text":
            return Expression(kind, quoted(self.random.choice(TEXTS)))
        if kind == "bool":
            return Expression(kind, self.random.choice(["TRUE", "FALSE"]))
        if kind == "date":
            return Expression(kind, f"DATE '{self.random.choice(TIMES)[:10]}'")
        if kind == "time":
            return Expression(kind, f"TIMESTAMP '{self.random.choice(TIMES)}'")
        if kind == "zoned":
            return Expression(kind, f"CAST('{self.random.choice(TIMES)}+00:00' AS TIMESTAMP WITH TIME ZONE)")
        if kind in ("wide", "decimal") and self.chance(0.5):
            # A number with a point is a decimal.
            return Expression(kind, f"({self.random.choice(WIDE if kind == 'wide' else ['0.0', '1.5', '-2.25', '10.00'])})")
        if kind == "wide":
            return Expression(kind, f"CAST({self.random.choice(WIDE)} AS DECIMAL(38,10))")
        if kind == "category":
            return Expression(kind, quoted(self.random.choice(TEXTS)))
        if kind == "bytes":
            return Expression(kind, self.bytes_literal(self.random.choice(BYTES)))
        if kind == "list":
            items = ", ".join("NULL" if item is None else str(item) for item in self.random.choice(LISTS))
            return Expression(kind, f"CAST(ARRAY[{items}] AS BIGINT[])")
        if kind == "far":
            return Expression(kind, f"TIMESTAMP '{self.random.choice(FAR_TIMES)}'")
        return Expression(kind, f"CAST({self.random.choice(['0', '1', '1.5', '-2.25', '10'])} AS DECIMAL(9,2))")

    def bytes_literal(self, value):
        """Bytes as each engine writes them."""
        return f"{{{{X'{value.hex()}'||unhex('{value.hex()}')||'\\x{value.hex()}'::bytea}}}}"

    def value(self, kind, scope, depth):
        same = [name for name, of in scope if of == kind]
        if kind in STORED_ONLY:
            return Expression(kind, self.random.choice(same)) if same and self.chance(0.8) else self.literal(kind)
        if depth <= 0 or self.chance(0.4):
            if same and self.chance(0.85):
                return Expression(kind, self.random.choice(same))
            if kind == "int" and self.chance(0.1):
                return Expression(kind, "CAST(NULL AS BIGINT)")
            return self.literal(kind)
        if self.budget > 2 and self.chance(0.15):
            self.budget -= 3
            return self.scalar(scope, kind)
        inner = lambda of=kind: self.value(of, scope, depth - 1)
        condition = lambda: self.boolean(scope, 1)
        form = self.pick((2, "case"), (1, "switch"), (2, "coalesce"), (1, "nullif"), (1, "greatest"), (6, "own"))
        if form == "case":
            return Expression(kind, "CASE WHEN ", condition(), " THEN ", inner(), *([" ELSE ", inner()] if self.chance(0.7) else []), " END")
        if form == "switch":
            of = self.random.choice([of for _, of in scope] or ["int"])
            whens = []
            for _ in range(self.pick((2, 1), (2, 2))):
                whens += [" WHEN ", self.value(of, scope, 0), " THEN ", inner()]
            return Expression(kind, "CASE ", self.value(of, scope, 0), *whens, *([" ELSE ", inner()] if self.chance(0.7) else []), " END")
        if form == "coalesce":
            return Expression(kind, "coalesce(", inner(), ", ", inner(), ")")
        if form == "nullif":
            return Expression(kind, "nullif(", inner(), ", ", inner(), ")")
        if form == "greatest" and kind not in ("bool", *COMPUTED):
            return Expression(kind, self.random.choice(["greatest(", "least("]), inner(), ", ", inner(), ")")
        return self.own(kind, inner, scope)

    def own(self, kind, inner, scope):
        """What there is for one kind alone."""
        if kind == "int":
            return self.pick(
                (3, lambda: Expression(kind, "(", inner(), self.random.choice([" + ", " - ", " * "]), inner(), ")")),
                (1, lambda: Expression(kind, "(- ", inner(), ")")),
                (1, lambda: Expression(kind, "abs(", inner(), ")")),
                (1, lambda: Expression(kind, "(", inner(), f" % {self.random.choice([2, 3])})")),
                (1, lambda: Expression(kind, "CAST(length(", inner("text"), ") AS BIGINT)")),
                (1, lambda: Expression(kind, "CAST(", inner("bool"), " AS BIGINT)")),
                (1, lambda: Expression(kind, f"CAST(extract({self.random.choice(['year', 'month', 'day', 'dow', 'doy', 'quarter', 'week', 'hour'])} FROM ", inner("time"), ") AS BIGINT)")),
                (1, lambda: Expression(kind, f"CAST(extract({self.random.choice(['year', 'month', 'day', 'dow', 'doy', 'hour', 'minute'])} FROM ", self.local(inner)[0], ") AS BIGINT)")),
                (1, lambda: Expression(kind, f"{explained.TRUNCATION[0]}extract({self.random.choice(['day', 'hour', 'minute', 'second', 'millisecond', 'microsecond', 'month'])} FROM ", inner(self.random.choice(COMPUTED)), f"){explained.TRUNCATION[1]}")),
                (0.5, lambda: Expression(kind, "CAST(", inner("small"), " AS BIGINT)")),
                (0.5, lambda: Expression(kind, "(", inner(), explained.INTEGER_DIVISION, f"{self.random.choice([2, 3, -2])})")),
                (0.5, lambda: Expression(kind, explained.TRUNCATION[0], inner("decimal"), explained.TRUNCATION[1])),
                (0.5, lambda: Expression(kind, "TRY_CAST(", inner("text"), " AS BIGINT)")),
                (0.5, lambda: Expression(kind, "CAST(", inner("date"), " - ", inner("date"), " AS BIGINT)")),
                (0.4, lambda: Expression(kind, "CAST(octet_length(", inner("bytes"), ") AS BIGINT)")),
                (0.4, lambda: Expression(kind, "CAST({{cardinality||len||cardinality}}(", inner("list"), ") AS BIGINT)")),
                (0.4, lambda: Expression(kind, f"CAST(extract({self.random.choice(['year', 'month', 'day', 'hour', 'dow'])} FROM ", inner("far"), ") AS BIGINT)")),
                (0.5, lambda: Expression(kind, "CAST(strpos(", inner("text"), f", {quoted(self.random.choice(['a', 'b', '']))}) AS BIGINT)")),
            )()
        if kind == "small":
            return Expression(kind, "CAST(", inner("int"), " AS INTEGER)")
        if kind == "float":
            return self.pick(
                (3, lambda: Expression(kind, "(", inner(), self.random.choice([" + ", " - ", " * "]), inner(), ")")),
                (1, lambda: Expression(kind, "CAST(", inner(self.random.choice(["int", "decimal"])), " AS DOUBLE)")),
                (1, lambda: Expression(kind, "abs(", inner(), ")")),
                (1, lambda: Expression(kind, "(- ", inner(), ")")),
                (1, lambda: Expression(kind, self.random.choice(["floor(", "ceil("]), inner(), ")")),
                (0.5, lambda: Expression(kind, "CAST(extract(epoch FROM ", inner(self.random.choice(["time", *COMPUTED])), ") AS DOUBLE)")),
            )()
        if kind == "text":
            return self.pick(
                (2, lambda: Expression(kind, "(", inner(), " || ", inner(), ")")),
                (1, lambda: Expression(kind, "concat(", inner(), ", ", inner(), ")")),
                (1, lambda: Expression(kind, self.random.choice(["upper(", "lower(", "trim(", "reverse("]), inner(), ")")),
                (1, lambda: Expression(kind, "substr(", inner(), f", {self.random.choice([1, 2])}, {self.random.choice([0, 1, 2])})")),
                (1, lambda: Expression(kind, "replace(", inner(), ", 'a', 'b')")),
                (0.5, lambda: Expression(kind, self.random.choice(["left(", "right("]), inner(), f", {self.random.choice([0, 1, 2])})")),
                (0.5, lambda: Expression(kind, "lpad(", inner(), f", {self.random.choice([1, 3])}, 'xy')")),
                (0.5, lambda: Expression(kind, "upper(", inner("category"), ")")),
                (0.5, lambda: Expression(kind, "split_part(", inner(), ", 'a', 1)")),
                (1, lambda: Expression(kind, "CAST(", inner(self.random.choice(["int", "small", "decimal", "date", "bool"])), " AS VARCHAR)")),
            )()
        if kind == "bool":
            return self.plain_boolean(scope, 1)
        if kind == "date":
            return self.pick(
                (2, lambda: Expression(kind, "CAST((", inner(), f" + INTERVAL '{self.random.choice(INTERVALS)}') AS DATE)")),
                (1, lambda: Expression(kind, "CAST(", inner("time"), " AS DATE)")),
                (1, lambda: Expression(kind, "CAST(", self.local(inner)[0], " AS DATE)")),
                (1, lambda: Expression(kind, "(", inner(), f" + {self.random.choice([1, 31, -5])})")),
                (1, lambda: Expression(kind, f"CAST(date_trunc('{self.random.choice(['month', 'year', 'week'])}', ", inner(), ") AS DATE)")),
            )()
        if kind == "time":
            return self.pick(
                (2, lambda: Expression(kind, "(", inner(self.random.choice(["time", "date"])), f" {self.random.choice('+-')} INTERVAL '{self.random.choice(INTERVALS)}')")),
                (1, lambda: Expression(kind, f"date_trunc('{self.random.choice(['second', 'minute', 'hour', 'day', 'week', 'month', 'quarter', 'year'])}', ", inner(), ")")),
                (1, lambda: Expression(kind, "CAST(", inner("date"), " AS TIMESTAMP)")),
                (1, lambda: Expression(kind, "(", inner("zoned"), f" AT TIME ZONE '{self.random.choice(ZONES)}')")),
                (0.5, lambda: Expression(kind, "CAST(", self.local(inner)[0], " AS TIMESTAMP)")),
            )()
        if kind == "zoned":
            return self.pick(
                (2, lambda: Expression(kind, "(", inner("time"), f" AT TIME ZONE '{self.random.choice(ZONES)}')")),
                (1, lambda: Expression(kind, "(", inner(), f" + INTERVAL '{self.random.choice(['36 hours', '-90 seconds'])}')")),
                (0.5, lambda: Expression(kind, "CAST(", inner("time"), " AS TIMESTAMP WITH TIME ZONE)")),
                (1, lambda: self.moment("date_trunc('" + self.random.choice(["hour", "day", "week", "month", "year"]) + "', ", inner, ")")),
                (0.5, lambda: self.moment("(", inner, f" + INTERVAL '{self.random.choice(['1 month', '-1 month', '3 days', '1 year'])}')")),
            )()
        if kind == "interval":
            return self.pick(
                (2, lambda: Expression(kind, "(", inner(), self.random.choice([" + ", " - "]), inner(), ")")),
                (1, lambda: Expression(kind, "(- ", inner(), ")")),
            )()
        if kind == "span":
            return Expression(kind, "(", inner("time"), " - ", inner("time"), ")")
        return self.pick(
            (2, lambda: Expression(kind, "(", inner(), self.random.choice([" + ", " - "]), inner(), ")")),
            (1, lambda: Expression(kind, "(- ", inner(), ")")),
            (1, lambda: Expression(kind, "CAST(", inner("int"), " AS DECIMAL(9,2))")),
        )()

    def local(self, inner):
        """A timestamp of a zone where its local time counts, and the zone. DuckDB takes the local time of the session."""
        zone = self.random.choice(ZONES)
        return Expression("local", "(", inner("time"), f" AT TIME ZONE '{zone}'{{{{|| AT TIME ZONE '{zone}'|| AT TIME ZONE '{zone}'}}}})"), zone

    def moment(self, before, inner, after):
        """A timestamp of a zone, computed by the local time there."""
        local, zone = self.local(inner)
        return Expression("zoned", "(", before, local, after, f"{{{{|| AT TIME ZONE '{zone}'|| AT TIME ZONE '{zone}'}}}})")
