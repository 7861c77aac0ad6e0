"""Versions and licences of what eigenmap depends on, as installed here.

    python tools/dependencies.py        # write constraints.txt and the tables of docs/licences.md

`constraints.txt` has the version of every package that eigenmap and its extras lead to, in the environment in which the
tests ran: `pip install eigenmap -c constraints.txt` installs the same. Extras that are not installed are left out.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # mypy brings it

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS, LICENCES = ROOT / "constraints.txt", ROOT / "docs" / "licences.md"
NOT_OURS = {"dev", "docs"}
"""Extras for working on eigenmap itself."""
HEAD = "<!-- licences: written by python tools/dependencies.py -->"
END = "<!-- end of tables -->"


def closure(requirements: list[Requirement]) -> dict[str, str]:
    """Return the version of each installed package that requirements lead to."""
    found: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(canonicalize_name(each.name), frozenset(each.extras)) for each in requirements]
    while waiting:
        package, wanted = waiting.pop()
        if (package, wanted) in seen:
            continue
        seen.add((package, wanted))
        try:
            distribution = metadata.distribution(package)
        except metadata.PackageNotFoundError:
            continue
        found[package] = distribution.version.partition("+")[0]
        more = needs(distribution.requires or [], wanted)
        waiting += [(canonicalize_name(each.name), frozenset(each.extras)) for each in more]
    return dict(sorted(found.items()))


def needs(lines: list[str], extras: frozenset[str]) -> list[Requirement]:
    """Return the requirements that hold here, with some extras."""
    requirements = [Requirement(line) for line in lines]
    return [
        each
        for each in requirements
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]


def licence(package: str) -> str:
    """Return the licence that a package states, in a few words."""
    about = metadata.metadata(package)
    classifiers = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier", []) if line.startswith("License")]
    stated = about.get("License-Expression") or " / ".join(classifiers) or (about.get("License") or "").strip()
    return re.sub(r"\s+", " ", stated.splitlines()[0] if stated else "not stated")


def described() -> dict[str, Any]:
    """Return what pyproject.toml says of the project."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def direct() -> dict[str, list[tuple[str, Requirement]]]:
    """Return the packages that pyproject.toml names, each with the extra ("" for none) and the requirement."""
    project = described()
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    found: dict[str, list[tuple[str, Requirement]]] = {}
    for extra, lines in groups.items():
        for requirement in map(Requirement, lines if extra not in NOT_OURS else ()):
            found.setdefault(canonicalize_name(requirement.name), []).append((extra, requirement))
    return found


def table() -> str:
    """Return the table of licences."""
    rows = ["| package | for | version | licence |", "| --- | --- | --- | --- |"]
    named = {package: [extra for extra, _ in uses] for package, uses in direct().items()}
    for package, extras in sorted(named.items(), key=lambda item: ("" not in item[1], item[0])):
        used = "always" if "" in extras else ", ".join(f"`{extra}`" for extra in extras)
        try:
            rows.append(f"| {package} | {used} | {metadata.version(package)} | {licence(package)} |")
        except metadata.PackageNotFoundError:
            rows.append(f"| {package} | {used} | not installed here | |")
    return "\n".join(rows)


def main() -> int:
    """Write both files."""
    pinned = closure([requirement for uses in direct().values() for _, requirement in uses])
    lines = [f"{package}=={version}" for package, version in pinned.items()]
    head = f"# Written by python tools/dependencies.py with Python {sys.version.split()[0]}: what the tests ran with.\n"
    CONSTRAINTS.write_text(head + "\n".join(lines) + "\n", encoding="utf-8")
    text = LICENCES.read_text(encoding="utf-8")
    before, after = text.split(HEAD)[0], text.split(END)[1]
    LICENCES.write_text(f"{before}{HEAD}\n\n{table()}\n\n{END}{after}", encoding="utf-8")
    print(f"{CONSTRAINTS.name}: {len(pinned)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
