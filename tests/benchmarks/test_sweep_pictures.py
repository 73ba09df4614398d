"""The pictures of the papers' sweeps: which curves and points, and that something is drawn."""

import json

from benchmarks import attention_picture, attention_table, sweep_picture
from benchmarks.attention_settings import changed
from tests.benchmarks.test_sweep_tables import CONTROL, FEDATT, training


def test_the_curves_are_of_the_rounds_that_all_seeds_have(tmp_path):
    for setting, seed, curve in (
        *((FEDATT, 1, [9.0, 7.0]), (CONTROL, 1, [9.0, 8.0, 6.0])),
        *((CONTROL, 2, [8.0, 7.0]), (changed(CONTROL, share=0.5), 1, [5.0])),
    ):
        found = training(setting, seed, [1, 2, 3], curve=curve)
        (tmp_path / f"{setting.name}_seed{seed}.json").write_text(json.dumps(found))
    shown = attention_picture.curves_of(attention_picture.of_folder(tmp_path))
    assert {label: curves.tolist() for label, curves in shown.items()} == {
        "FedAvg, server rate 1.2": [[9.0, 8.0], [8.0, 7.0]],
        "FedAtt": [[9.0, 7.0]],
    }
    attention_picture.main([f"IID={tmp_path}", f"--out={tmp_path / 'sweeps.png'}"])
    assert (tmp_path / "sweeps.png").stat().st_size > 10_000


def rows_of(*settings_and_nats):
    trainings = [
        training(setting, seed, nats) for setting, nats in settings_and_nats for seed in (1, 2, 3)
    ]
    return json.loads(json.dumps(attention_table.rows_of(trainings)))


ROWS = rows_of(
    (changed(CONTROL, dim=64), [300, 310, 320]),
    (CONTROL, [400, 410, 420]),
    (FEDATT, [390, 401, 409]),
    (changed(CONTROL, epsilon=0.8), [401, 410, 420]),
    (changed(CONTROL, dim=16, tied=False), [402, 410, 420]),
    (changed(CONTROL, tied=False), [403, 410, 420]),
    (changed(FEDATT, norm="spectral"), [1, 2, 3]),  # on no line, as the next
    (changed(CONTROL, share=0.5, epochs=1), [1, 2, 3]),
)


def test_a_line_is_one_sweep_with_the_usual_setting_in_its_place():
    def values(rule, key, **options):
        return [point.at for point in sweep_picture.line(ROWS, rule, key, **options)]

    assert values("fedavg_epsilon", "dim") == [32, 64]
    assert values("fedavg_epsilon", "dim", tied=False) == [16, 32]
    assert values("fedavg_epsilon", "epsilon") == [0.8, 1.2]
    assert values("fedavg_epsilon", "share") == [0.1]
    assert values("fedatt", "epsilon") == [1.2]
    assert values("fedatt", "dim", tied=False) == []
    large = sweep_picture.line(ROWS, "fedavg_epsilon", "dim")[1]
    (row,) = (row for row in ROWS if row["point"] == {"dim": 64})
    assert large._asdict() == {"at": 64, "seeds": 3, **row["held_out_perplexity"]}
    assert large.low < large.value < large.high


def test_draws_a_row_for_each_corpus(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(sweep_picture.charts, "save_png", lambda figure, _: figures.append(figure))
    few = [row | {"seeds": [1]} for row in ROWS if row["setting"]["tied"]]
    paths = []
    for name, rows in (("a", few), ("b", ROWS)):
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(json.dumps({"rows": rows}))
    sweep_picture.main(
        [*(f"{path.stem}={path}" for path in paths), f"--out={tmp_path / 'out.png'}"]
    )
    (figure,) = figures
    panels = figure.get_axes()
    assert len(panels) == 2 * len(sweep_picture.PANELS)
    assert panels[0].get_ylabel().startswith("a\n")
    assert [tick.get_text() for tick in panels[-1].get_xticklabels()] == ["16", "32", "64"]
    (legend,) = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == {
        *("FedAvg(ε)", "FedAtt", "FedAvg(ε), untied"),
    }
    faces = [panels[i].collections[-1].get_facecolor()[0] for i in (0, 5)]
    assert tuple(faces[0]) == (1.0, 1.0, 1.0, 1.0)  # one seed: hollow
    assert tuple(faces[1]) != (1.0, 1.0, 1.0, 1.0)
