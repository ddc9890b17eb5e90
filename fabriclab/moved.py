"""Modules that have moved since earlier versions: importing one raises an error with the line to write instead.

Notebooks handed out earlier still contain the old imports. This module is the first import finder. It has to be: when a
checkout is updated, folders of compiled files are left behind, and Python would take them for packages. Tools that ask
whether such a module exists get the error as well.
"""

_NOW = {
    "fabriclab.checks": """fabriclab.checks is now fabriclab.course.checks. Instead of
    from fabriclab.checks import ...
write
    from fabriclab.course.checks import ...""",
    "fabriclab.exercises": """The tools of exercises have moved. Instead of
    from fabriclab.exercises.graders.processes import Group, Link
    from fabriclab.exercises.graders.server import replay
    from fabriclab.exercises.graders.switches import trace
write
    from fabriclab.course.judges.exercise3.processes import Group, Link
    from fabriclab.course.judges.exercise3.server import replay
    from fabriclab.course.judges.exercise4.switches import trace
and fabriclab.course.judges for fabriclab.exercises. Calls such as fl.exercises.example("ex3-a") stay as they are.""",
    "fabriclab.doctor": (
        "fabriclab.doctor is now fabriclab.diagnosis, because fabriclab.doctor(...) reads logs; change the import."
    ),
    "fabriclab.routing._ways": "fabriclab.routing._ways is now fabriclab.routing.shortest; change the import.",
    "fabriclab.collectives._algorithm": (
        "fabriclab.collectives._algorithm is now fabriclab.collectives.algorithm; change the import."
    ),
}


def find_spec(name: str, path: object = None, target: object = None) -> None:
    """Raise an error for the import of a module that has moved; return None for every other name.

    Raises
    ------
    ModuleNotFoundError
        With the line to write instead.
    """
    if name in _NOW:
        raise ModuleNotFoundError(_NOW[name], name=name)
    return None
