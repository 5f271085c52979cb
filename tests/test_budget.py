"""How large everything may become."""

import ast
import io
import tokenize
import tomllib

from reference import PARTS

from config import ROOT

NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
OUR_PYTHON = ("*.py", *(f"{part}/**/*.py" for part in (*PARTS, "migrations", "examples")))
MADE = ROOT / "docs/reference.md"


def lines_of(token):
    return range(token.start[0], token.end[0] + 1)


def code_lines(path):
    """Count the lines of a module without its docstrings, comments and blank lines."""
    text = path.read_text()
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    code = {line for token in tokens if token.type not in NO_CODE for line in lines_of(token)}
    return len(code - docstrings - {text.count("\n") + 1})  # the last is the end of the file


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
