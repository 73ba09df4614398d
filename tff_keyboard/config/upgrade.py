"""Reads configs older than the tagged tables (up to commit 481d7a5), or says what to write now.

A run directory keeps the resolved config it was made with, and old runs still resume, evaluate and
load: `upgraded` translates theirs. A config that a person wrote is not translated behind their
back: `advice` says what to write, by the same translation.
"""

import dataclasses
import json
import typing
from collections.abc import Mapping
from typing import Any

from tff_keyboard.config import tables
from tff_keyboard.config.resolved_execution import EACH_BY_ITSELF, ONE_BY_ONE
from tff_keyboard.config.run_config import RunConfig
from tff_keyboard.storage.errors import ConfigError

_AGGREGATION: dict[str, Any] = {
    "name": "mean",
    "client_weighting": "tokens",
    "layer_groups": {},
    "norm": "2",
    "temperature": 1.0,
    "client_noise_scale": 0.0,
    "client_noise_stddev": 1.0,
    "divergence_normalisation": "absolute",
    "local_loss": "during_training",
    "mediation_threshold": 0.01,
    "top_fraction": 1.0,
    "adaptive_step": 1.0,
    "layer_clip_norm": 0.5,
    "attention_bound": 1.0,
    "denominator_scale": 1.0,
    "denominator_floor": 1.0,
    "dp": "none",
    "clip_norm": 1.0,
    "noise_multiplier": 0.0,
    "blt_buffers": 2,
    "noise_bands": 8,
    "noise_secret": "",
    "fixed_nonce": "",
    "target_unclipped_quantile": 0.5,
    "clip_learning_rate": 0.2,
    "clipped_count_noise": 0.05,
    "tree_restart_rounds": 0,
    "delta": 1e-6,
    "sampling": "fixed_size",
    "max_participations": 0,
    "zeroing": "auto",
    "clipping": "auto",
    "clipping_quantile": 0.8,
    "clipping_learning_rate": 1.0,
    "trim_fraction": 0.1,
    "compression": "none",
    "compression_bits": 8,
    "compression_threshold": 1000,
}
_SERVER: dict[str, Any] = {
    "optimizer": "sgd",
    "learning_rate": 1.0,
    "momentum": 0.9,
    "nesterov": True,
    "beta_1": 0.9,
    "beta_2": 0.99,
    "epsilon": 1e-3,
}
_FINE_TUNING: dict[str, Any] = {
    "method": "retraining",
    "general_store": "",
    "rehearsal_portion": 0.5,
    "true_label_weight": 0.5,
    "user_weight": 0.5,
    "server": "averaging",
    "transfer_text": "general",
    "transfer_messages": 1000,
    "transfer_epochs": 1,
    "transfer_batch_size": 16,
    "transfer_learning_rate": 0.5,
    "transfer_clip_norm": 1.0,
}
_RULE_KEYS = {
    "mean": (),
    "fedatt": ("norm", "temperature", "layer_groups"),
    "fedmed": (
        *("top_fraction", "mediation_threshold", "adaptive_step", "local_loss"),
        *("divergence_normalisation", "layer_groups"),
    ),
    "private_fedatt": ("attention_bound", "denominator_floor", "layer_groups"),
    "median": (),
    "trimmed_mean": ("trim_fraction",),
}
_DP_KEYS = (
    *("clip_norm", "noise_multiplier", "delta", "max_participations"),
    *("noise_secret", "fixed_nonce"),
)
_OWN_KEYS = {  # of a mechanism: now, then
    "gaussian": ("sampling", "sampling"),
    "gaussian_adaptive": ("sampling", "sampling"),
    "tree": ("restart_rounds", "tree_restart_rounds"),
    "tree_adaptive": ("restart_rounds", "tree_restart_rounds"),
    "blt": ("buffers", "blt_buffers"),
    "banded": ("bands", "noise_bands"),
}
_KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a word in quotes",
    dict: "a table",
}
_ADAPTIVE_KEYS = ("target_unclipped_quantile", "clip_learning_rate", "clipped_count_noise")


def is_old(values: Mapping[str, Any]) -> bool:
    """Whether TOML values, of a whole config or of a part, have keys that are no longer."""
    return bool(_old_keys(values))


def of_run(values: Mapping[str, Any], *, to_resume: bool = False) -> dict[str, Any]:
    """What a run recorded, in today's tables; options it did not know are as they were without.

    Args and errors are those of `upgraded`.
    """
    new = upgraded(values, to_resume=to_resume) if is_old(values) else dict(values)
    # Everything else that is new means by default what was done without it.
    before = {"clients_per_pack": ONE_BY_ONE, "merge_block": EACH_BY_ITSELF}
    new["execution"] = before | new.get("execution", {})
    return new


def upgraded(values: Mapping[str, Any], *, to_resume: bool = False) -> dict[str, Any]:
    """An old config in today's tables, with the defaults of then.

    Args:
      values: As TOML has them.
      to_resume: Whether it must describe the same training, to the bit.

    Raises:
      ConfigError: To resume, with an option that was dropped since; an old key has a value that it
        never took.
    """
    _check_values(values)
    new = {section: dict(table) for section, table in values.items()}
    old = _AGGREGATION | new.pop("aggregation", {})
    client = new.setdefault("client", {})
    train = new.setdefault("train", {})
    model = new.setdefault("model", {})
    fine_tuning = _FINE_TUNING | new.pop("fine_tuning", {})
    dropped = _dropped(old, client)
    if to_resume and dropped:
        raise ConfigError(
            f"{dropped} was dropped since this run began: it can be evaluated and exported, but "
            "not resumed. Resume it with the version it began with, or start a new run directory."
        )
    client.pop("bucket_by_length", None)
    if train.pop("algorithm", "fedavg") == "fedsgd":
        for key in ("learning_rate", "momentum", "gradient_clip_norm", "epochs"):
            client.pop(key, None)
        client["algorithm"] = "fedsgd"
    if model.get("name", "cifg") == "cifg":
        model.pop("tied", None)
        model.pop("dropout", None)
    new["aggregation"] = {
        "client_weighting": old["client_weighting"],
        "rule": {"name": old["name"]} | {key: old[key] for key in _RULE_KEYS.get(old["name"], ())},
        "privacy": _privacy(old),
        "protection": _protection(old),
        "compression": _compression(old),
        "client_noise": _client_noise(old),
    }
    new["fine_tuning"] = _fine_tuning(fine_tuning)
    server = _SERVER | new.pop("server", {})
    if fine_tuning["server"] != "transfer":
        new["server"] = _server(server)
    return new


def advice(values: Mapping[str, Any]) -> str:
    """One line: which keys are old, and what to write in their place."""
    new, default, old_keys = upgraded(values), RunConfig(), _old_keys(values)
    sections = {key.split(".")[0] for key in old_keys}
    if "train.algorithm" in old_keys:
        sections.add("client")
    hints = typing.get_type_hints(RunConfig)
    lines = [
        line
        for section in sorted(sections & new.keys())
        for line in _differences(hints[section], new[section], getattr(default, section), section)
    ]
    keys = ", ".join(f"`{key}`" for key in old_keys)
    instead = f"write {'; '.join(lines)}" if lines else "write nothing, they are the defaults"
    return f"{keys}: configs have tables by kind now (docs/configs.md). Instead, {instead}."


def _old_keys(values: Mapping[str, Any]) -> list[str]:
    def table(section: str) -> Mapping[str, Any]:
        found = values.get(section, {})
        return found if isinstance(found, Mapping) else {}

    kept = ("client_weighting",)
    keys = [
        f"aggregation.{key}"
        for key, value in table("aggregation").items()
        if key in _AGGREGATION and key not in kept and not _is_new(key, value)
    ]
    if table("server").get("optimizer") in ("sgd", "adam"):
        keys += [f"server.{key}" for key in table("server") if key in _SERVER]
    keys += [
        f"fine_tuning.{key}"
        for key, value in table("fine_tuning").items()
        if key in _FINE_TUNING
        and key not in ("general_store", "user_weight")
        and not isinstance(value, Mapping)
    ]
    keys += ["train.algorithm"] if "algorithm" in table("train") else []
    keys += ["client.bucket_by_length"] if "bucket_by_length" in table("client") else []
    return keys


def _check_values(values: Mapping[str, Any]) -> None:
    defaults = {"aggregation": _AGGREGATION, "server": _SERVER, "fine_tuning": _FINE_TUNING}
    for name in _old_keys(values):
        section, _, key = name.partition(".")
        if key not in defaults.get(section, {}):
            continue
        value, kind = values[section][key], type(defaults[section][key])
        fits = isinstance(value, (int, float) if kind is float else kind)
        if not fits or (isinstance(value, bool) and kind is not bool):
            raise ConfigError(f"`{name}` must be {_KINDS[kind]}, got {value!r}.")
    mechanism = values.get("aggregation", {}).get("dp", "none")
    known = ("none", *_OWN_KEYS)
    if mechanism not in known:
        words = ", ".join(map(repr, known))
        raise ConfigError(f"`aggregation.dp` must be one of {words}, got {mechanism!r}.")


def _is_new(key: str, value: Any) -> bool:
    return key == "compression" and isinstance(value, Mapping)  # a table now, a word then


def _dropped(old: Mapping[str, Any], client: Mapping[str, Any]) -> str:
    is_private_fedatt = old["name"] == "private_fedatt"
    for name, was_used in (
        ("`client.bucket_by_length`", client.get("bucket_by_length")),
        (
            "`aggregation.compression` = 'tff_quantization'",
            old["compression"] == "tff_quantization",
        ),
        (
            "`aggregation.denominator_scale`",
            is_private_fedatt and old["denominator_scale"] != 1.0,
        ),
        ("private FedAtt without a mechanism", is_private_fedatt and old["dp"] == "none"),
    ):
        if was_used:
            return name
    return ""


def _privacy(old: Mapping[str, Any]) -> dict[str, Any]:
    mechanism, is_private_fedatt = old["dp"], old["name"] == "private_fedatt"
    if is_private_fedatt and mechanism == "none":
        mechanism = "gaussian"
    if mechanism == "none":
        return {"mechanism": "none"}
    keys = [*_DP_KEYS, *(_ADAPTIVE_KEYS if mechanism.endswith("_adaptive") else ())]
    table = {"mechanism": mechanism} | {key: old[key] for key in keys}
    if is_private_fedatt:
        table["clip_norm"] = old["layer_clip_norm"]
    own, then = _OWN_KEYS[mechanism]
    table[own] = old[then]
    return table


def _protection(old: Mapping[str, Any]) -> dict[str, Any]:
    is_protected = old["name"] in ("mean", "fedatt", "fedmed") and old["dp"] == "none"
    clipping, zeroing = old["clipping"], old["zeroing"]
    if clipping == "auto":
        clipping = "adaptive" if is_protected else "off"
    zeroes = is_protected if zeroing == "auto" else zeroing == "on"
    table: dict[str, Any] = {"clipping": clipping, "zeroing": zeroes}
    if clipping != "off":
        table["clip_norm"] = old["clip_norm"]
    if clipping == "adaptive":
        table["quantile"] = old["clipping_quantile"]
        table["learning_rate"] = old["clipping_learning_rate"]
    usual = {"clip_norm": 1.0, "quantile": 0.8, "learning_rate": 1.0}
    is_usual = all(value == usual.get(key, value) for key, value in table.items())
    if old["clipping"] == zeroing == "auto" and is_usual:
        return {"clipping": "auto"}
    return table


def _compression(old: Mapping[str, Any]) -> dict[str, Any]:
    if old["compression"] != "uniform_quantization":
        return {"codec": "none"}
    return {
        "codec": "uniform_quantization",
        "bits": old["compression_bits"],
        "threshold": old["compression_threshold"],
    }


def _client_noise(old: Mapping[str, Any]) -> dict[str, Any]:
    if not old["client_noise_scale"]:
        return {"distribution": "none"}
    return {
        "distribution": "normal",
        "scale": old["client_noise_scale"],
        "stddev": old["client_noise_stddev"],
    }


def _server(old: Mapping[str, Any]) -> dict[str, Any]:
    keys: tuple[str, ...] = ("learning_rate",)
    optimizer = "fedavg"
    if old["optimizer"] == "adam":
        keys, optimizer = (*keys, "beta_1", "beta_2", "epsilon"), "fedadam"
    elif old["momentum"]:
        keys, optimizer = (*keys, "momentum", "nesterov"), "fedavgm"
    return {"optimizer": optimizer} | {key: old[key] for key in keys}


def _fine_tuning(old: Mapping[str, Any]) -> dict[str, Any]:
    method = {"name": old["method"]}
    if old["method"] == "rehearsal":
        method["portion"] = old["rehearsal_portion"]
    if old["method"] == "lwf":
        method["true_label_weight"] = old["true_label_weight"]
    server = {"name": old["server"]}
    if old["server"] == "transfer":
        prefix = "transfer_"
        server |= {k.removeprefix(prefix): v for k, v in old.items() if k.startswith(prefix)}
    kept = {key: old[key] for key in ("general_store", "user_weight")}
    return kept | {"method": method, "server": server}


def _differences(hint: Any, values: Mapping[str, Any], default: Any, prefix: str) -> list[str]:
    """`[table] key = value, key = value` of what is not the default, for it and its tables.

    Nothing is checked beyond tags: what a person wrote may be a part of a config.

    Args:
      hint: Type of the table.
      values: Of it.
      default: The dataclass that stands there when nothing is written.
      prefix: Its dotted name.
    """
    cls = tables.class_of(hint, values, prefix, default)
    is_default = cls is type(default)
    usual = default if is_default else cls()
    hints, tag = typing.get_type_hints(cls), tables.tag_of(cls)
    own, lines = {}, []
    for key, value in values.items():
        if dataclasses.is_dataclass(getattr(usual, key, None)):
            lines += _differences(hints[key], value, getattr(usual, key), f"{prefix}.{key}")
        elif value != getattr(usual, key, None) or (key == tag and not is_default):
            own[key] = value
    if own:
        items = ", ".join(f"{key} = {_inline(value)}" for key, value in own.items())
        lines.insert(0, f"[{prefix}] {items}")
    return lines


def _inline(value: Any) -> str:
    """A value as TOML writes it on one line."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{key} = {_inline(item)}' for key, item in value.items())} }}"
    return json.dumps(value)  # numbers, strings and lists of them are the same in both
