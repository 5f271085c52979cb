"""How large everything may become, and how large it is."""

import ast
import io
import re
import tokenize
import tomllib

from config import ROOT

NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
PARTS = ("blueprints", "cli", "config", "core", "services", "web")
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
    """Return the size of each part, by the names of budget.toml."""
    folders = (*PARTS, "migrations")
    sizes = {part: sum(map(code_lines, ROOT.glob(f"{part}/**/*.py"))) for part in folders}
    pages = [*ROOT.glob("static/*"), *ROOT.glob("templates/**/*.html")]
    docs = {*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"} - {MADE}
    return {
        "top": sum(map(code_lines, ROOT.glob("*.py"))),
        **sizes,
        "pages": all_lines(path for path in pages if path.suffix in (".js", ".css", ".html")),
        "tests": all_lines(ROOT.glob("tests/**/*.py")),
        "words": sum(len(path.read_text().split()) for path in docs),
    }


def test_nothing_is_larger_than_its_budget():
    budget, sizes = tomllib.loads((ROOT / "budget.toml").read_text()), present()
    assert budget.keys() == sizes.keys()
    now = "\n".join(f"{name} = {size}" for name, size in sizes.items())
    larger = {name for name, size in sizes.items() if size > budget[name]}
    assert not larger, f"change budget.toml too, and say why in the commit. Now it is:\n{now}"


def test_map_of_what_to_read_first_says_how_much_it_is():
    section = (ROOT / "docs/design.md").read_text().split("## What to read first\n")[1]
    told = re.findall(r"^- \*\*(\w+)\*\*, about ([0-9,]+) lines: (.*?\.)$", section, re.M | re.S)
    files = {part: re.findall(r"`([\w/]+\.py)`", text) for part, _, text in told}
    named = [name for names in files.values() for name in names]
    paths = [*ROOT.glob("*.py"), *(path for part in PARTS for path in ROOT.glob(f"{part}/*.py"))]
    rest = {str(path.relative_to(ROOT)) for path in paths} - {*named}
    files["Capabilities"] += rest
    sizes = {part: all_lines(ROOT / name for name in names) for part, names in files.items()}
    assert sorted(named) == sorted({*named})
    # About, so that few commits change them.
    for part, about, _ in told:
        assert abs(sizes[part] - int(about.replace(",", ""))) <= 150, sizes
