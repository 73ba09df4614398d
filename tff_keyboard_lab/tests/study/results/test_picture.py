"""The learning curves of a study: lines and bands, and cases without a picture."""

import numpy as np
import pytest

from tff_keyboard_lab.study.plan.study_file import Arm, Study
from tff_keyboard_lab.study.results import picture
from tff_keyboard_lab.study.results.curve import Curve

ARMS = (Arm(name="control", label="FedAvg", config="c.toml"), Arm(name="other", config="c.toml"))
STUDY = Study(question="?", control="control", arms=ARMS, target=90.0)
SEEDS = [
    Curve([2, 4, 6], [10.0, 20.0, 30.0], [400.0, 200.0, 100.0]),
    Curve([2, 4], [12.0, 24.0], [100.0, 50.0]),
]


def test_a_line_is_the_geometric_mean_where_all_seeds_have_a_value():
    tokens, mean, low, high = picture._mean(SEEDS)
    np.testing.assert_allclose(tokens, [11, 22])
    np.testing.assert_allclose(mean, [200, 100])
    np.testing.assert_allclose(low, [100, 50])
    np.testing.assert_allclose(high, [400, 200])


def test_a_panel_for_each_point_of_a_sweep(tmp_path, monkeypatch):
    panels = {}

    def looked_at(figure, path):
        for axes in figure.axes:
            lines = {line.get_label(): line.get_ydata() for line in axes.get_lines()}
            panels[axes.get_title(loc="left")] = (axes.axison, lines, len(axes.collections))

    monkeypatch.setattr(picture.charts, "save_png", looked_at)
    curves = {("control", ""): SEEDS, ("other", ""): SEEDS[:1]}
    curves |= {("control", point): SEEDS[1:] for point in ("epochs=1", "epochs=5", "epochs=9")}
    picture.draw(STUDY, curves, tmp_path / "curves.png")
    assert set(panels) == {"Perplexity, validation clients", "epochs=1", "epochs=5", "epochs=9", ""}
    is_shown, lines, bands = panels["Perplexity, validation clients"]
    assert is_shown
    assert bands == 1  # of the two seeds of the control
    np.testing.assert_allclose(lines["FedAvg"], [200, 100])
    np.testing.assert_allclose(lines["other"], [400, 200, 100])
    assert 90.0 in {np.unique(values).item() for values in lines.values() if np.ptp(values) == 0}
    assert not panels[""][0]  # four panels in two rows of three


@pytest.mark.parametrize(("length", "panels"), [(60, 1), (12, 1), (30, 3)])
def test_no_label_is_cut_off(tmp_path, monkeypatch, length, panels):
    def looked_at(figure, path):
        figure.savefig(path)
        box = figure.legends[0].get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.x1
        assert figure.axes[0].get_window_extent().height > 2.5 * figure.dpi  # a legend takes none

    monkeypatch.setattr(picture.charts, "save_png", looked_at)
    arms = tuple(Arm(name=f"a{i}", label=f"{i} " + "n" * length, config="c") for i in range(5))
    study = Study(question="?", control="a0", arms=arms)
    curves = {(arm.name, f"x={i}"): SEEDS for arm in arms for i in range(panels)}
    picture.draw(study, curves, tmp_path / "curves.png")


def test_the_model_before_is_judged_on_other_text_and_left_out(tmp_path, monkeypatch):
    labels = []

    def looked_at(figure, path):
        labels.extend(line.get_label() for line in figure.axes[0].get_lines())

    monkeypatch.setattr(picture.charts, "save_png", looked_at)
    arms = (
        Arm(name="general", config="g.toml", seeds=(1,)),
        Arm(name="tuned", config="c.toml", after="general"),
    )
    study = Study(question="?", control="tuned", before="general", arms=arms)
    picture.draw(study, {(arm.name, ""): SEEDS for arm in arms}, tmp_path / "curves.png")
    assert labels == ["tuned"]


def test_where_colours_repeat_lines_do_not(tmp_path, monkeypatch):
    looks = []

    def looked_at(figure, path):
        looks.extend((x.get_color(), x.get_linestyle()) for x in figure.axes[0].get_lines())

    monkeypatch.setattr(picture.charts, "save_png", looked_at)
    arms = tuple(Arm(name=f"a{i}", config="c.toml") for i in range(11))
    study = Study(question="?", control="a0", arms=arms)
    picture.draw(study, {(arm.name, ""): SEEDS for arm in arms}, tmp_path / "curves.png")
    assert len(looks) == len(set(looks)) == 11
    assert len({colour for colour, _ in looks}) < 11


@pytest.mark.parametrize("curves", [{}, {("control", ""): [Curve([], [], [])]}])
def test_no_picture_before_the_first_validation(tmp_path, curves):
    picture.draw(STUDY, curves, tmp_path / "curves.png")
    assert not (tmp_path / "curves.png").exists()


def test_the_picture_is_a_png(tmp_path):
    picture.draw(STUDY, {("control", ""): SEEDS}, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
