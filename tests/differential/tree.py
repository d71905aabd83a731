"""Queries as trees, so that a failing one can be made smaller."""

import copy


class Expression:
    """An expression: SQL text with other expressions, queries and lists of expressions in it."""

    def __init__(self, kind, *parts):
        self.kind = kind
        self.parts = list(parts)

    def sql(self):
        return "".join(part if isinstance(part, str) else part.sql() for part in self.parts)

    __str__ = sql


class Items:
    """A list of expressions, of which some can go."""

    def __init__(self, items, separator=", ", least=1):
        self.items = list(items)
        self.separator = separator
        self.least = least

    def sql(self):
        return self.separator.join(item.sql() for item in self.items)


class Relation:
    """A table or a query in FROM, and how it is joined with what comes before."""

    def __init__(self, source, alias, join=None, on=None):
        self.source = source
        self.alias = alias
        self.join = join
        self.on = on

    def sql(self):
        source = self.source if isinstance(self.source, str) else f"({self.source.sql()})"
        text = f"{source} AS {self.alias}"
        if self.join is not None:
            text = f" {self.join} {text}"
        if self.on is not None and self.on.kind == "using":
            text += f" USING ({self.on.sql()})"
        elif self.on is not None:
            text += f" ON {self.on.sql()}"
        return text


class Query:
    """A SELECT."""

    def __init__(self, select, relations, kinds):
        self.ctes = []
        self.distinct = False
        self.select = select
        self.relations = relations
        self.where = None
        self.group = None
        self.having = None
        self.operator = None
        self.other = None
        self.order = None
        self.limit = None
        # The order of its rows is compared, or is that of a query which is.
        self.keeps_order = False
        self.kinds = kinds

    def is_ordered(self):
        return self.order is not None or self.keeps_order

    def sql(self):
        text = ""
        if self.ctes:
            text += "WITH " + ", ".join(f"{name} AS ({query.sql()})" for name, query in self.ctes) + " "
        text += "SELECT "
        if self.distinct:
            text += "DISTINCT "
        text += self.select.sql()
        if self.relations:
            text += " FROM " + "".join(relation.sql() for relation in self.relations)
        if self.where is not None:
            text += f" WHERE {self.where.sql()}"
        if self.group is not None:
            text += f" GROUP BY {self.group.sql()}"
        if self.having is not None:
            text += f" HAVING {self.having.sql()}"
        if self.operator is not None:
            text += f" {self.operator} {self.other.sql()}"
        if self.order is not None:
            text += f" ORDER BY {self.order.sql()}"
        if self.limit is not None:
            text += f" LIMIT {self.limit}"
        return text


def places(node, seen=None):
    """Yields functions that each make the tree smaller in one place, and functions that undo it."""
    if isinstance(node, Query):
        for field in ("where", "having", "group", "limit"):
            if getattr(node, field) is not None:
                yield _set(node, field, None)
        # Any rows would do for a limit without an order.
        if node.order is not None and node.limit is None and not node.keeps_order:
            yield _set(node, "order", None)
        if node.operator is not None:
            yield _set_all(node, {"operator": None, "other": None})
        if node.distinct:
            yield _set(node, "distinct", False)
        for number in range(len(node.ctes)):
            yield _drop(node.ctes, number)
        for number in range(len(node.relations) - 1, 0, -1):
            yield _drop(node.relations, number)
        if len(node.relations) > 1 and node.relations[1].join in (",", "CROSS JOIN", "JOIN"):
            yield _first_relation(node)
        yield from places(node.select)
        for _, query in node.ctes:
            yield from places(query)
        for relation in node.relations:
            if not isinstance(relation.source, str):
                yield from places(relation.source)
            if relation.on is not None:
                yield from places(relation.on)
        for field in ("where", "group", "having", "other", "order"):
            if getattr(node, field) is not None:
                yield from places(getattr(node, field))
    elif isinstance(node, Items):
        if len(node.items) > node.least:
            for number in range(len(node.items)):
                yield _drop(node.items, number)
        for item in node.items:
            yield from places(item)
    elif isinstance(node, Expression):
        for part in node.parts:
            if isinstance(part, Expression) and part.kind == node.kind:
                yield _become(node, part)
        if len(node.parts) > 1:
            for text in LEAST.get(node.kind, ()):
                yield _become(node, Expression(node.kind, text))
        for part in node.parts:
            if not isinstance(part, str):
                yield from places(part)


# The least of each kind.
LEAST = {
    "bool": ("TRUE", "FALSE", "CAST(NULL AS BOOLEAN)"),
    "int": ("1", "CAST(NULL AS BIGINT)"),
    "small": ("CAST(1 AS INTEGER)",),
    "float": ("CAST(1 AS DOUBLE)",),
    "text": ("'a'",),
    "date": ("DATE '2024-01-01'",),
    "time": ("TIMESTAMP '2024-01-01 00:00:00'",),
    "interval": ("INTERVAL '1 month'", "INTERVAL '30 days'"),
    "decimal": ("CAST(1 AS DECIMAL(9,2))",),
    "wide": ("1.5",),
    "category": ("'a'",),
}


def _set(node, field, value):
    return _set_all(node, {field: value})


def _set_all(node, fields):
    before = {field: getattr(node, field) for field in fields}

    def do():
        for field, value in fields.items():
            setattr(node, field, value)

    def undo():
        for field, value in before.items():
            setattr(node, field, value)

    return do, undo


def _drop(items, number):
    item = items[number]
    return (lambda: items.pop(number)), (lambda: items.insert(number, item))


def _first_relation(node):
    first, second = node.relations[0], node.relations[1]
    join, on = second.join, second.on

    def do():
        node.relations.pop(0)
        second.join, second.on = None, None

    def undo():
        second.join, second.on = join, on
        node.relations.insert(0, first)

    return do, undo


def _become(node, other):
    before = node.kind, node.parts

    def do():
        node.kind, node.parts = other.kind, other.parts

    def undo():
        node.kind, node.parts = before

    return do, undo


def shrink(query, fails, attempts=400):
    """Returns a smaller query for which `fails` still holds."""
    query = copy.deepcopy(query)
    smaller = True
    while smaller and attempts > 0:
        smaller = False
        for do, undo in places(query):
            attempts -= 1
            do()
            if fails(query):
                smaller = True
                break
            undo()
            if attempts <= 0:
                break
    return query
