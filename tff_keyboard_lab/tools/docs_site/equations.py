"""Equations of the site as MathML, which browsers show without a script.

Pages contain equations in LaTeX between dollar signs, as GitHub renders them. Docstrings contain
equations in plain text, for readers of the code; `with_latex` converts those.
"""

import collections
import html
import itertools
import re

_GREEK = "alpha|beta|gamma|delta|epsilon|eta|theta|lambda|sigma"
_SIGNS = {
    **{"<-": r"\leftarrow ", "->": r"\rightarrow ", "<=": r"\le ", ">=": r"\ge ", "-+": r"\mp "},
    **{"||": r"\|", "...": r"\ldots ", "*": r"\cdot ", "%": r"\%"},
}
_WORD = rf"(?!(?:{_GREEK}|exp|log|ln|max|min|tanh|sum|sqrt)\b)[A-Za-z]{{2,}}(?:'s|[_-][a-z]{{2,}})*"
_PART = rf"(?:a (?=[a-z]{{2}}))?{_WORD}(?![\w(^])"
_TOKEN = re.compile(
    rf"(?P<text>(?: (?! ))?(?:{_PART})(?: (?:{_PART}))*(?: (?! ))?)"
    r"|(?P<group>sqrt|[_^])(?=\()"
    r"|(?P<script>[_^])(?P<value>-?\w(?![a-z])|(?={))"
    rf"|(?P<command>{_GREEK}|exp|log|ln|max|min|tanh|sum)(?![a-z])"
    r"|(?P<operator>[A-Za-z]{2,}(?:_[a-z]{2,})*)"
    r"|(?P<sign><-|->|<=|>=|-\+|\|\||\.\.\.|[*%])"
    r"|(?P<gap> {2,})"
    r"|."
)
_GROUPS = {"sqrt": r"\sqrt", "_": "_", "^": "^"}
_BLOCK = re.compile(r"^    .*(?:\n+    .*)*", re.MULTILINE)
# A name with an index or a power, but no string, comment or method.
_SYMBOL = rf"(?:{_GREEK}|sum|[A-Za-z])(?:[_^]-?[A-Za-z\d](?![\w(]))+"
_IS_EQUATION = re.compile(rf'(?s)(?!.*(?:["#]|[a-z]{{2}}\.[a-z])).*(?:\b{_SYMBOL}|sqrt\()')
_IN_PROSE = re.compile(rf"(?<![\w`./]){_SYMBOL}(?![\w`/])")
_MARKED = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', flags=re.DOTALL)


def with_mathml(page: str) -> str:
    """Returns a page's HTML with MathML for the equations that `pymdownx.arithmatex` marks."""
    from latex2mathml.converter import convert  # only the environment of `make docs` has it

    def replace(match: re.Match[str]) -> str:
        tag, latex = match.groups()
        display = "block" if tag == "div" else "inline"
        mathml = convert(html.unescape(latex).strip(), display=display)
        return f'<{tag} class="equation">{mathml}</{tag}>'

    return _MARKED.sub(replace, page)


def with_latex(docstring: str) -> str:
    """Returns a docstring with LaTeX for the indented blocks that are equations.

    If it has any, symbols with an index or a power are LaTeX in its prose, too.
    """
    blocks = list(_BLOCK.finditer(docstring))
    if not any(_IS_EQUATION.match(block.group()) for block in blocks):
        return docstring
    parts, end = [], 0
    for block in blocks:
        text = block.group()
        latex = _displayed(text) if _IS_EQUATION.match(text) else text
        parts += [_with_symbols(docstring[end : block.start()]), latex]
        end = block.end()
    return "".join([*parts, _with_symbols(docstring[end:])])


def latex_of_text(text: str) -> str:
    r"""Converts a part of an equation from plain text to LaTeX.

    >>> latex_of_text("theta_k <- beta N(0, sigma^2)")
    '\\theta _{k} \\leftarrow  \\beta  N(0, \\sigma ^{2})'
    >>> latex_of_text("clip(x) = e^(-a / b)  for x in a layer")
    '\\operatorname{clip}(x) = e^{-a / b}\\quad \\text{for }x\\text{ in a layer}'
    """
    latex, position = "", 0
    while match := _TOKEN.match(text, position):
        token, position = match.group(), match.end()
        if match["group"]:
            end = _closing(text, position)
            inner = text[position : end + 1] if token == "_" else text[position + 1 : end]
            latex += f"{_GROUPS[token]}{{{latex_of_text(inner)}}}"
            position = end + 1
        elif match["script"]:
            latex += f"{match['script']}{{{match['value']}}}" if match["value"] else token
        elif match["text"]:
            latex += rf"\text{{{token}}}"
        elif match["command"]:
            latex += f"\\{token} "
        elif match["operator"]:
            latex += rf"\{'text' if '_' in token else 'operatorname'}{{{token}}}"
        else:
            latex += r"\quad " if match["gap"] else _SIGNS.get(token, token)
    return latex


def _closing(text: str, start: int) -> int:
    """Returns the place of the parenthesis that closes the one at `start`."""
    depth = 0
    for position in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        if not depth:
            return position
    raise ValueError(f"A parenthesis is not closed: {text[start:]!r}.")


def _with_symbols(prose: str) -> str:
    return _IN_PROSE.sub(lambda match: f"${latex_of_text(match.group())}$", prose)


def _displayed(block: str) -> str:
    """Returns a block as LaTeX, aligned at the columns that begin in several of its lines."""
    lines = [line[4:].rstrip() for line in block.split("\n") if line.strip()]
    gaps = [{match.end() for match in re.finditer(r" {2,}(?=\S)", line)} for line in lines]
    used = collections.Counter(end for line_gaps in gaps for end in line_gaps)
    inside = {end for i, line in enumerate(lines) for end in gaps[i] if line[:end].strip()}
    columns = {end for end in inside if used[end] > 1}
    rows = []
    for line, line_gaps in zip(lines, gaps, strict=True):
        starts = [0, *sorted(line_gaps & columns), len(line)]
        cells = [line[i:j].rstrip() for i, j in itertools.pairwise(starts)]
        rows.append(r" & ".join(map(latex_of_text, cells)))
    width = 1 + max(row.count(" & ") for row in rows)
    body = r" \\ ".join(rows)
    return f"$$\n\\begin{{array}}{{{'l' * width}}} {body} \\end{{array}}\n$$"
