"""The parts of Airflow that examples/cluster/airflow_tasks.py uses. Tasks run one after the other, and again as often as they may."""

import sys
import types


class AirflowException(Exception):
    pass


class AirflowFailException(AirflowException):
    pass


class Node:
    """A task of the graph: its calls are made once those before it are done."""

    graph = []

    def __init__(self, function, retries, arguments, mapped):
        self.function, self.retries, self.arguments, self.mapped = function, retries, arguments, mapped
        self.before = [argument for argument in arguments if isinstance(argument, Node)]
        self.is_done, self.result = False, None
        self.graph.append(self)

    def __rshift__(self, after):
        after.before.append(self)
        return after

    def run(self, default_retries):
        if self.is_done:
            return
        for node in self.before:
            node.run(default_retries)
        retries = default_retries if self.retries is None else self.retries
        arguments = [argument.result if isinstance(argument, Node) else argument for argument in self.arguments]
        if self.mapped:
            self.result = [self.attempt(retries, [value]) for value in arguments[0]]
        else:
            self.result = self.attempt(retries, arguments)
        self.is_done = True

    def attempt(self, retries, arguments):
        for left in range(retries, -1, -1):
            try:
                return self.function(*arguments)
            except AirflowFailException:
                raise
            except AirflowException:
                if left == 0:
                    raise


def task(function=None, retries=None):
    if function is None:
        return lambda function: task(function, retries)

    def node(*arguments):
        return Node(function, retries, arguments, mapped=False)

    node.expand = lambda **arguments: Node(function, retries, list(arguments.values()), mapped=True)
    return node


def dag(schedule, start_date, default_args):
    def decorate(function):
        def run():
            function()
            for node in Node.graph:
                node.run(default_args["retries"])

        return run

    return decorate


for name in ["decorators", "exceptions"]:
    module = types.ModuleType(f"airflow.{name}")
    module.__dict__.update(globals())
    sys.modules[f"airflow.{name}"] = module
