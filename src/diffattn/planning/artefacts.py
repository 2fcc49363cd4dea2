"""The two files that a person hands to a language model, and a plan's numbers put into them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from diffattn.planning.comparison import LABELS
from diffattn.planning.document import at_context, plain, share
from diffattn.planning.sections import to_markdown

__all__ = ["ARTEFACTS", "brief", "filled", "read_artefact"]

ARTEFACTS = {"prompt": "prompt-diff-attention-evaluator.md", "skill": "skill-diff-attention-integrator.md"}
#: Where a model's numbers go.
MARKER = "<!-- the numbers of a model go here -->"


def read_artefact(name: str) -> str:
    """The text of an artefact: "prompt" for the evaluator, "skill" for the integrator."""
    packaged = files("diffattn").joinpath("outputs", ARTEFACTS[name])
    in_source = Path(__file__).parents[3] / "outputs" / ARTEFACTS[name]
    return (packaged if packaged.is_file() else in_source).read_text(encoding="utf-8")


def filled(name: str, plan: Mapping[str, Any]) -> str:
    """An artefact with the numbers of a plan at its marker."""
    whole = re.sub(r"^#", "##", to_markdown(plan), flags=re.MULTILINE)
    return read_artefact(name).replace(MARKER, f"{brief(plan)}\n{whole}")


def brief(plan: Mapping[str, Any]) -> str:
    """The plan in a dozen lines of Markdown, about V2."""
    asked, verdict = plan["asked"], plan["verdict"]
    machine = f"{asked['hardware']['name']}, {asked['dtype']}"
    lines = [f"{plan['model']} at {max(asked['contexts']):,} tokens, {machine}: V2: {verdict['answer']}"]
    lines += plan["notes"]
    lines += [_refused(verdict), _attention(plan), _size(plan), _cache(plan), *_decode(plan), _noise(plan)]
    lines += [_training(plan), _seeds(plan)]
    return "".join(f"- {line}\n" for line in lines)


def _refused(verdict: Mapping[str, Any]) -> str:
    """Which refusals apply, and which cannot be told."""
    applies = [entry["case"] for entry in verdict["refusals"] if entry["applies"]]
    open_ones = [f"{entry['case']} ({entry['option']})" for entry in verdict["refusals"] if entry["applies"] is None]
    if not applies and not open_ones:
        return "refusals: all checked, none applies"
    said = [("refused because of", applies), ("not said yet", open_ones)]
    return "; ".join(f"{words}: {', '.join(names)}" for words, names in said if names)


def _attention(plan: Mapping[str, Any]) -> str:
    counts = [f"{LABELS[key]} {size['layer_attention']:,}" for key, size in plan["sizes"].items() if key != "matched"]
    return f"attention parameters a layer: {', '.join(counts)}"


def _size(plan: Mapping[str, Any]) -> str:
    sizes = plan["sizes"]
    base, v2 = sizes["softmax"], sizes["v2"]
    matched = sizes.get("matched") if plan["training"]["from_scratch"] else None
    narrowed = ""
    if matched and matched["inner"] != base["inner"]:
        rest = matched["total"] - base["total"]
        exactly = " exactly" if not rest else f", but for {rest:+,}"
        narrowed = f"; a feed-forward of {matched['inner']:,} instead of {base['inner']:,} pays for it{exactly}"
    more = v2["total"] - base["total"]
    return f"parameters {base['total']:,}; V2 {more:+,} ({more / base['total']:+.1%}){narrowed}"


def _cache(plan: Mapping[str, Any]) -> str:
    caches = {key: plan["sizes"][key]["cache_bytes_a_token"] for key in ("softmax", "v2")}
    same = "V2's is the same" if len(set(caches.values())) == 1 else f"V2's {caches['v2']:,}"
    return f"cache {caches['softmax']:,} bytes a token, {same}"


def _decode(plan: Mapping[str, Any]) -> list[str]:
    asked, bound = plan["asked"], plan["bounds"]["v2"][0]
    context = max(asked["contexts"])
    rows = [row for row in plan["decode"] if row["context"] == context and not row["combined"] and row["model"] == "v2"]
    times = ", ".join(f"{row['ratio']:.3f} at batch {row['batch']}{_FITS[row['fits']]}" for row in rows)
    limit = "memory" if bound["memory_bound"] else "arithmetic"
    base, ridge = plan["bounds"]["softmax"][0]["intensity"], plan["bounds"]["ridge"]
    ours = bound["intensity"]
    prefill = {key: at_context(plan["sizes"][key]["prefill_flops"], context) for key in ("softmax", "v2")}
    return [
        f"decode step by the roofline, V2 over the baseline: {times}",
        f"attention in decoding: {base:.4g} FLOPs a byte, V2 {ours:.4g}, ridge {ridge:.4g}: bound by {limit}",
        f"prefill at {context:,} tokens: V2 takes {prefill['v2'] / prefill['softmax']:.2f} times the baseline's FLOPs",
    ]


_FITS = {True: "", False: " (does not fit one)", None: ""}


def _noise(plan: Mapping[str, Any]) -> str:
    noise, assumed = plan["noise"], plan["asked"]["noise"]
    gains = ", ".join(f"{row['gain']:.2f} at correlation {row['correlation']:g}" for row in noise["rows"])
    source = "as given" if assumed["measured"] else "assumed"
    fails = "" if noise["holds"] else " (the closed form fails at this strength)"
    return (
        f"noise model (margin {assumed['margin']:g}, strength {assumed['strength']:g} {source}): "
        f"{share(noise['noise_mass'])} of softmax's weight on noise; the best lambda gains {gains}{fails}"
    )


def _training(plan: Mapping[str, Any]) -> str:
    training = plan["training"]
    cost, run = training["break_even"]["v2"], training["runs"]["v2"]
    text = f"training FLOPs {cost['ratio']:.3f} of the baseline's at {training['length']:,} tokens a sequence"
    text += f"; V2 on {training['tokens'] / 1e9:,.4g} billion tokens: {plain(run['device_hours'])} device hours"
    text += f", {plain(cost['device_hours'])} of them more than the baseline's"
    if run["money"] is not None:
        text += f"; {plain(run['money'])} in money, {plain(cost['money'])} of it more"
    if not training["from_scratch"] or cost["loss_bought"] is None:
        return f"{text}; no loss to beat is known here, so the control decides"
    return f"{text}; to pay by loss alone it must fall by {cost['loss_bought']:.4f} nats"


def _seeds(plan: Mapping[str, Any]) -> str:
    found = plan["experiment"]
    if found["pilot"] is None:
        counts = ", ".join(f"{row['pairs']} if the spread is {row['spread']:g}" for row in found["table"])
        return f"pairs of runs that show {found['difference']:g} nats: {counts} (assumed; measure it by a pilot)"
    spread = found["pilot"]["deviation"]
    return (
        f"pairs of runs that show {found['difference']:g} nats: {found['pairs']} at the pilot's spread of {spread:.4f}"
    )
