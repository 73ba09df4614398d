"""Valid and invalid study files."""

import pytest

from tff_keyboard.storage.errors import ConfigError
from tff_keyboard_lab.study.plan import study_file
from tff_keyboard_lab.study.plan.study_file import Budget

HEAD = 'question = "Which?"\ncontrol = "a"\n'
ARM = '[[arms]]\nname = "a"\nconfig = "a.toml"\n'


def loaded(tmp_path, text):
    path = tmp_path / "s.toml"
    path.write_text(text)
    return study_file.load(path)


def test_reads_arms_and_sweeps(tmp_path):
    study = loaded(
        tmp_path,
        HEAD
        + 'seeds = [3, 4]\nset = ["train.rounds=7"]\n'
        + ARM
        + '[[sweeps]]\nkey = "client.epochs"\nvalues = [1, 0.5, true, "x"]\n',
    )
    assert study.arm("a").config == "a.toml"
    assert study.seeds == (3, 4)
    assert study.sweeps[0].values == ("1", "0.5", "true", "x")
    assert study.budget is None


def test_before_is_an_arm_of_one_seed(tmp_path):
    text = 'before = "b"\nseeds = [1, 2]\n' + ARM
    arm = ARM.replace('"a"\n', '"b"\n')
    after = ARM.replace('"a"\n', '"c"\n') + 'after = "b"\n'
    assert loaded(tmp_path, HEAD + text + arm + "seeds = [2]\n" + after).before == "b"
    with pytest.raises(
        ConfigError, match="`before` must be an arm that another arm comes `after`, got"
    ):
        loaded(tmp_path, HEAD + text + arm + "seeds = [2]\n")
    with pytest.raises(ConfigError, match="`before` must have one seed"):
        loaded(tmp_path, HEAD + text + arm)
    with pytest.raises(ConfigError, match="`before` must be one of a, got"):
        loaded(tmp_path, HEAD + text)


def test_a_budget_has_one_limit_or_two(tmp_path):
    assert loaded(tmp_path, HEAD + ARM + "[budget]\nhours = 2\n").budget == Budget(hours=2.0)
    both = loaded(tmp_path, HEAD + ARM + "[budget]\nhours = 0.5\ntokens_m = 50.0\n").budget
    assert both == Budget(hours=0.5, tokens_m=50.0)


@pytest.mark.parametrize(
    "text, says",
    [
        (HEAD, "arms"),
        (HEAD.replace('"a"', '"b"') + ARM, "control"),
        (HEAD + ARM + ARM, "arms.name"),
        (HEAD + ARM.replace('"a"\n', '"A b"\n'), "arms"),
        (HEAD + ARM + 'after = "b"\n', "arms.after"),
        (HEAD + ARM + 'step_from = "a"\n', "`arms.step_from` must name an earlier arm, got 'a'"),
        (HEAD + ARM + "sede = 3\n", "sede"),
        (HEAD + 'metrics = ["recal"]\n' + ARM, "metrics"),
        (HEAD + 'populations = ["everybody"]\n' + ARM, "populations"),
        (HEAD + "seeds = [1, 1]\n" + ARM, "seeds"),
        (HEAD + "flat_within = 2\n" + ARM, "flat_within"),
        (HEAD + ARM + '[[sweeps]]\nkey = "epochs"\nvalues = [1]\n', "sweeps"),
        (HEAD + ARM + '[[sweeps]]\nkey = "client.epochs"\nvalues = []\n', "sweeps"),
        (HEAD + ARM + '[[sweeps]]\nkey = "a.b"\nvalues = [1]\narms = ["c"]\n', "sweeps.arms"),
        (HEAD + ARM + 'trials = [["a.b=1"]]\n', "`arms.trials` needs the table [tuning]"),
        (HEAD + ARM + "[tuning]\ntrials = 1\nseed = 9\n", "`arms.trials` must be 1 lists"),
        (HEAD + ARM + "trials = [[], []]\n[tuning]\ntrials = 1\nseed = 9\n", "must be 1 lists"),
        (HEAD + ARM + "[tuning]\ntrials = 0\nseed = 9\n", "`tuning.trials` must be >= 1"),
        (
            HEAD + ARM + 'trials = [[]]\n[tuning]\ntrials = 1\nseed = 9\nmetric = "recal"\n',
            "`tuning.metric` must be in evaluation/metrics/metric_table.py",
        ),
        (HEAD + 'worst_tenth = "recal"\n' + ARM, "`worst_tenth` must be in evaluation/metrics"),
        (HEAD + 'reach_metric = "perplexity"\n' + ARM, "must be a metric of which more is better"),
        (HEAD + "reach_share = 1.5\n" + ARM, "`reach_share` must be in [0, 1], got 1.5"),
        (HEAD + ARM + "[budget]\n", "`budget.hours` or `budget.tokens_m` must be > 0"),
        (HEAD + ARM + "[budget]\nhours = 0\ntokens_m = 0.0\n", "Leave [budget] out"),
        (HEAD + ARM + "[budget]\nhours = -1\n", "`budget.hours` must be >= 0, got -1.0"),
        (HEAD + ARM + "[budget]\nhours = 1\ntokens_m = -2\n", "`budget.tokens_m`"),
        (HEAD + ARM + "[budget]\nhours = inf\n", "`budget.hours`"),
        (HEAD + ARM + "[budget]\nhour = 1\n", "Did you mean `budget.hours`?"),
        (HEAD + "budget = 3\n" + ARM, "budget"),
        ("question = ", "s.toml"),
        ("arms = 3\n" + HEAD, "arms"),
    ],
)
def test_invalid_study_names_the_key(text, says, tmp_path):
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text)
    assert says in str(caught.value)
    assert "s.toml" in str(caught.value)


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="Cannot read"):
        study_file.load(tmp_path / "none.toml")


def model(word, name="n"):
    return f'[[models]]\nname = "{name}"\nmodel = "{word}"\n'


def test_models_stand_beside_the_arms(tmp_path):
    text = HEAD + ARM + model("ngram:1.25M") + model("hybrid:1.44MB:{a}", "h")
    ngram, hybrid = loaded(tmp_path, text).models
    assert (ngram.arm, hybrid.arm) == ("", "a")


@pytest.mark.parametrize(
    "text, says",
    [
        (model("runs/a"), "must be a baseline or hybrid:{ARM}, got 'runs/a'"),
        (model("hybrid:runs/a"), "must be a baseline or hybrid:{ARM}, got 'hybrid:runs/a'"),
        (model("hybrid:{b}"), "must name one of a in {}, got 'hybrid:{b}'"),
        (model("ngram", "a"), "must differ from each other and from the arms'"),
        (model("ngram", "A"), "must be small letters, digits and underscores"),
        (model("ngram") * 2, "must differ from each other and from the arms'"),
    ],
)
def test_invalid_models_are_rejected(tmp_path, text, says):
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, HEAD + ARM + text)
    assert says in str(caught.value)
    assert "s.toml" in str(caught.value)


def test_every_arm_of_a_tuned_study_has_its_trials(tmp_path):
    tuning = '[tuning]\ntrials = 2\nseed = 9\nmetric = "perplexity"\n'
    study = loaded(tmp_path, HEAD + ARM + 'trials = [["a.b=1", "c.d=2"], []]\n' + tuning)
    assert study.arm("a").trials == (("a.b=1", "c.d=2"), ())
    assert (study.tuning.trials, study.tuning.seed, study.tuning.metric) == (2, 9, "perplexity")
