"""Pages that the documentation site refuses or shows; `make docs` itself needs MkDocs."""

import types

from tff_keyboard.config.config_file import to_dict
from tff_keyboard.config.run_config import RunConfig
from tff_keyboard_lab.tools.docs_site import config_reference, equations, pages
from tff_keyboard_lab.tools.docs_site.documented import undocumented


def thing(path, docstring="Does.", *, labels=(), bases=(), members=None, is_function=True):
    """Returns a griffe-like function or, with members, a class."""
    members = members or {}
    return types.SimpleNamespace(
        path=path,
        docstring=docstring,
        labels=set(labels),
        members=members,
        all_members={**{name: one for base in bases for name, one in base.members.items()}}
        | members,
        mro=lambda: list(bases),
        is_class=bool(members),
        is_function=is_function and not members,
    )


def test_a_public_name_without_docstring_is_named():
    assert list(undocumented(thing("a.f"))) == []
    assert list(undocumented(thing("a.f", None))) == ["a.f"]


def test_methods_and_properties_of_a_class_count():
    members = {
        "work": thing("work", None),
        "size": thing("size", None, labels=["property"], is_function=False),
        "field": thing("field", None, is_function=False),  # "Attributes:" has it
        "_own": thing("_own", None),
        "rest": thing("rest"),
    }
    assert list(undocumented(thing("a.C", members=members))) == ["a.C.work", "a.C.size"]


def test_a_method_takes_the_docstring_of_its_base():
    base = thing("a.Base", members={"work": thing("a.Base.work", "Works.")})
    own = thing("a.C.work", None)
    assert not list(undocumented(thing("a.C", members={"work": own}, bases=[base])))
    assert own.docstring == "Works."


def test_every_public_name_has_a_place_in_the_reference():
    surface = {"tk.data": {"Store": "a.b.Store", "batches": "a.c.batches"}}
    actual = pages.of_reference(surface, {"tk.data": "Text."})
    assert list(actual) == ["reference/data.md"]
    assert "::: a.b.Store\n" in actual["reference/data.md"]
    assert "heading: tk.data.batches" in actual["reference/data.md"]


SOURCE = "import this\n# %% [markdown]\n# # Title\n#\n# Prose.\n\n# %%\nx = 1  # one\n"


def test_a_tutorial_is_shown_before_it_has_run_and_with_outputs_after(tmp_path):
    sources, built = tmp_path / "docs" / "tutorials", tmp_path / "build" / "tutorials"
    sources.mkdir(parents=True)
    built.mkdir(parents=True)
    (sources / "one.py").write_text(SOURCE)
    assert pages.of_tutorials(tmp_path) == {
        "docs/tutorials/one.md": "# Title\n\nProse.\n\n```python\nx = 1  # one\n```\n"
    }
    (built / "one.md").write_text("# Run\n\n![picture 1](one_1.png)\n")
    (built / "gone.md").write_text("# No source\n")
    assert pages.of_tutorials(tmp_path) == {
        "docs/tutorials/one.md": "# Run\n\n![picture 1](one_1.png)\n",
        "docs/tutorials/one_1.png": built / "one_1.png",
    }


def test_lists_are_indented_as_python_markdown_reads_them():
    github = "1. One\n\n   more\n2. Two\n\n```\n- code\n```"
    expected = "1. One\n\n    more\n\n2. Two\n\n```\n- code\n```"
    assert pages.four_spaces(github) == expected


def keys_of(table, path):
    for name, value in table.items():
        if isinstance(value, dict) and name != "layer_groups":
            yield from keys_of(value, f"{path}.{name}".lstrip("."))
        else:
            yield path, name


def test_every_key_of_a_config_is_on_its_page_with_a_meaning():
    page = config_reference.page()
    for path, key in keys_of(to_dict(RunConfig()), ""):
        section = page.partition(f"## `[{path}]`\n")[2].partition("\n## ")[0]
        rows = [row for row in section.splitlines() if row.startswith(f"| `{key}` |")]
        is_tag = f"`{key}` selects a variant" in section
        assert is_tag or (rows and not any(row.endswith("|  |") for row in rows)), (path, key)


def test_every_variant_of_a_table_is_on_the_page():
    page = config_reference.page()
    for variant in ('type = "fedatt"', 'type = "blt"', 'type = "fedadam"'):
        assert f"### `{variant}`\n" in page


def test_equations_of_a_docstring_become_latex_and_its_code_stays():
    text = "Adds.\n\n    s_k = sqrt(x),  the norm of k\n    t   = s_k\n\nHere s_k is a norm.\n"
    code = '\n    rule(s_k, name="x")\n'
    expected = (
        "Adds.\n\n$$\n\\begin{array}{l} s_{k} = \\sqrt{x},\\quad \\text{the norm of }k \\\\ "
        "t\\quad = s_{k} \\end{array}\n$$\n\nHere $s_{k}$ is a norm.\n"
    )
    assert equations.with_latex(text + code) == expected + code
    assert equations.with_latex(code) == code


def test_columns_of_an_equation_stay_aligned():
    latex = equations.with_latex("    a_t = 1    one\n    b   = 2    two\n           c = 3\n")
    body = r"a_{t} = 1 & \text{one} \\ b\quad = 2 & \text{two} \\ \quad c = 3"
    assert f"{{ll}} {body} \\end" in latex


def test_equations_in_plain_text_become_latex():
    step = equations.latex_of_text("theta_k <- beta * softmax_k(N(0, sigma^2))")
    assert step == (
        r"\theta _{k} \leftarrow  \beta  \cdot  \operatorname{softmax}_{k}(N(0, \sigma ^{2}))"
    )
    assert equations.latex_of_text("e^(-(a + b) / n) R_(k)") == "e^{-(a + b) / n} R_{(k)}"
    assert equations.latex_of_text("x_{t-1} + step_size * y") == (
        r"x_{t-1} +\text{ step_size }\cdot  y"
    )


def test_long_code_in_tables_can_break_after_punctuation():
    assert pages.with_breaks("<td><code>tests/data/test_store.py::test_a</code></td>") == (
        "<td><code>tests/<wbr>data/<wbr>test_<wbr>store.<wbr>py::<wbr>test_<wbr>a</code></td>"
    )
    assert pages.with_breaks("<p><code>tests/data/test_store.py</code></p>").count("<wbr>") == 0
    assert pages.with_breaks("<td><code>a.py</code></td>") == "<td><code>a.py</code></td>"
