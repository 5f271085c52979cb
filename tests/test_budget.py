"""How large everything may become."""

import ast
import tomllib

from reference import PARTS

from config import ROOT

OUR_PYTHON = ("*.py", *(f"{part}/**/*.py" for part in (*PARTS, "migrations", "examples")))
MADE = ROOT / "docs/reference.md"


def lines_of(node):
    return range(node.lineno, node.end_lineno + 1)


def code_lines(path):
    """Count the lines of a module without its docstrings, comments and blank lines."""
    text = path.read_text()
    nodes = list(ast.walk(ast.parse(text)))
    texts = [node for node in nodes if isinstance(node, ast.Constant | ast.JoinedStr)]
    alone = [node.value for node in nodes if isinstance(node, ast.Expr)]
    docstrings = [value for value in alone if isinstance(getattr(value, "value", None), str)]
    lines = enumerate((line.strip() for line in text.splitlines()), 1)
    code = {number for number, line in lines if line and not line.startswith("#")}
    # What looks like a comment or is blank is neither in a text.
    code |= {line for node in texts for line in lines_of(node)}
    return len(code - {line for node in docstrings for line in lines_of(node)})


def all_lines(paths):
    return sum(len(path.read_text().splitlines()) for path in paths)


def present():
    """Return how much there is, by the names of budget.toml."""
    python = [path for pattern in OUR_PYTHON for path in ROOT.glob(pattern)]
    pages = [*ROOT.glob("static/*"), *ROOT.glob("templates/**/*.html")]
    docs = {*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"} - {MADE}
    return {
        "python": sum(map(code_lines, python)),
        "pages": all_lines(path for path in pages if path.suffix in (".js", ".css", ".html")),
        "tests": all_lines(ROOT.glob("tests/**/*.py")),
        "words": sum(len(path.read_text().split()) for path in docs),
    }


def test_there_is_not_more_than_the_budget_allows():
    budget, sizes = tomllib.loads((ROOT / "budget.toml").read_text()), present()
    assert budget.keys() == sizes.keys()
    assert [number for number in budget.values() if number % 100] == []
    larger = {name: size for name, size in sizes.items() if size > budget[name]}
    assert larger == {}, "take something away, or see the rule in CONTRIBUTING.md"
