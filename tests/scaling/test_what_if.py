"""Predictions of changes: simulated clusters whose change is known, the recorded ones, and what traces cannot know."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import citus_analysis as ca
from citus_analysis import cli, scaling
from citus_analysis.core.frames import resolve_source
from citus_analysis.dataset import Dataset
from citus_analysis.errors import InsufficientDataError, UnknownNameError, UsageError
from citus_analysis.runs.selection import USUAL_QUESTION
from citus_analysis.scaling.closed_loop import (
    KindMix,
    Load,
    _Equations,
    describe_load,
    fit_closed_loop,
    pool_active_times,
)
from citus_analysis.scaling.traced_configurations import Protocol, TracedConfiguration, read_traced_configurations
from citus_analysis.scaling.what_if import WhatIf, WhatIfStudy, parse_change, study_what_if, what_if
from citus_analysis.schema import TABLES
from tests.documentation.blocks import ROOT, blocks_run_by, commands_of
from tests.scaling.simulated_cluster import Cluster, make_tables, measure_ops_s, simulate

SEEDS = range(7)
#: Threads of the measured runs; `AT` is changed.
MEASURED, AT = (2, 6, 12, 24), 12
Tables = dict[str, pl.DataFrame]


@pytest.fixture(scope="module")
def clusters() -> list[Tables]:
    """Runs of a cluster, simulated anew with each seed; one remote statement in four makes a connection."""
    made = [Cluster(threads, reconnects=0.25) for threads in MEASURED]
    return [make_tables({one: simulate(one, 100 * seed + one.threads) for one in made}) for seed in SEEDS]


@pytest.fixture(scope="module")
def tables(clusters: list[Tables]) -> Tables:
    return clusters[0]


#: A change as it is typed -> the cluster after it.
CHANGED: Mapping[str, Cluster] = {
    "owner-routing": Cluster(AT, owner=True),
    "cached-connections": Cluster(AT),
    "threads=36": Cluster(36, reconnects=0.25),
}


def test_intervals_contain_what_the_change_really_does(clusters: list[Tables]) -> None:
    inside, found = [], []
    for change, cluster in CHANGED.items():
        truth = measure_ops_s(simulate(cluster, 7, operations=12_000))
        for seen in clusters:
            predicted = what_if(seen, change, at=f"t{AT}")
            inside.append(predicted.throughput_ops_s.low <= truth <= predicted.throughput_ops_s.high)
            found.append(predicted.throughput_ops_s.estimate / truth)
    assert np.mean(inside) >= 0.9, inside
    # An interval that contains everything would be worthless: the estimates themselves are close.
    assert np.exp(np.sqrt(np.mean(np.log(found) ** 2))) < 1.12, found


def test_terms_add_up_to_both_response_times(tables: Tables) -> None:
    for change in CHANGED:
        found = what_if(tables, change, at=f"t{AT}")
        assert found.terms["base_us"].sum() == pytest.approx(found.base_us)
        assert found.terms["after_us"].sum() == pytest.approx(found.response_us.estimate)
        changed = found.terms["base_us"] + found.terms["change_us"]
        assert changed.to_list() == pytest.approx(found.terms["after_us"].to_list())
        # Little's law: the threads are in the system or with the client.
        cycle_us = found.base_us * found.base_ops_s / 1e6
        assert cycle_us < AT


@pytest.fixture(scope="module")
def routed(tables: Tables) -> WhatIf:
    return what_if(tables, "owner-routing", at=f"t{AT}")


def test_owner_routing_takes_away_the_wait_between_parent_and_child(routed: WhatIf) -> None:
    terms = {row["segment"]: row for row in routed.terms.iter_rows(named=True)}
    assert terms["between"]["after_us"] == terms["child"]["after_us"] == terms["connecting"]["after_us"] == 0
    assert terms["between"]["base_us"] == pytest.approx(0.5 * 2 * 60, rel=0.15)
    assert routed.ratio.low > 1
    first, *rest = routed.sentences
    assert first.startswith("Predicted, not measured: if each statement of one shard arrives at the node of its shard")
    assert any("the wait between parent and child: -" in sentence for sentence in rest)
    assert routed.measured_ratio is None


def test_a_measured_change_stands_beside_its_prediction_which_does_not_know_it(tables: Tables) -> None:
    found = what_if(tables, "threads=24", at=f"t{AT}")
    assert found.counterpart == "t24"
    rates = dict(tables["runs"].group_by("resource").agg(pl.col("throughput_ops_s").mean()).iter_rows())
    assert found.measured_ratio == pytest.approx(rates["t24"] / rates[f"t{AT}"])
    runs = tables["runs"].with_columns(
        throughput_ops_s=pl.col("throughput_ops_s") * pl.when(resource="t24").then(1.5).otherwise(1.0)
    )
    wrong = what_if({**tables, "runs": runs}, "threads=24", at=f"t{AT}")
    assert wrong.ratio.estimate == pytest.approx(found.ratio.estimate, rel=1e-6)
    assert wrong.model_error > found.model_error
    pairs = found.left_out
    assert pairs.height == 12  # each of four from each other
    assert pairs["inside"].to_list() == [
        low <= measured <= high for low, high, measured in pairs.select("low", "high", "measured").iter_rows()
    ]


def test_measured_owner_routing_stands_beside_its_prediction(tables: Tables) -> None:
    simulated = make_tables({Cluster(AT, owner=True): simulate(Cluster(AT, owner=True), 9)})
    renamed = {
        name: rows.with_columns(resource=pl.lit("owner"), run_id=pl.lit("owner/") + pl.col("run_id").str.slice(4))
        for name, rows in simulated.items()
        if name in ("runs", "operation_latencies", "statements")
    }
    both = {**tables, **{name: pl.concat([tables[name], rows]) for name, rows in renamed.items()}}
    stated = pl.DataFrame({"resource": ["owner"], "name": ["entry"], "value": ["owner"]})
    found = what_if({**both, "settings": TABLES["settings"].conform(stated)}, "owner-routing", at=f"t{AT}")
    rates = dict(both["runs"].group_by("resource").agg(pl.col("throughput_ops_s").mean()).iter_rows())
    assert (found.counterpart, found.inside) == ("owner", True)
    assert found.measured_ratio == pytest.approx(rates["owner"] / rates[f"t{AT}"])
    assert "entry: any node to owner" in found.left_out["change"].to_list()


def test_a_study_predicts_what_it_can_and_says_why_not(tables: Tables) -> None:
    found = study_what_if(tables, USUAL_QUESTION)
    assert {one.change for one in found.predictions} >= {"owner-routing", "cached-connections", "threads=24"}
    reasons = dict(found.refused.select("change", "reason").iter_rows())
    assert reasons["text"].startswith("no SELECT that was executed on another node over the text protocol was traced")
    assert found.table().height == len(found.predictions)
    assert found.predictions[0].to_dict()["kind"] == "prediction"


@pytest.fixture(scope="module")
def recorded(demonstration: Dataset) -> WhatIfStudy:
    return study_what_if(demonstration, USUAL_QUESTION)


def test_recorded_changes_are_predicted_from_the_other_configurations(recorded: WhatIfStudy) -> None:
    """Pairs that were measured: coordinator, threads, workers, twice the CPU, protocol."""
    measured = recorded.table().drop_nulls("measured_ratio")
    assert measured.height == 15
    assert measured["inside"].all()
    decided = measured.filter((pl.col("ratio_low") > 1) | (pl.col("ratio_high") < 1))
    assert decided.height >= 8
    assert ((decided["ratio"] > 1) == (decided["measured_ratio"] > 1)).all()
    pairs = recorded.left_out
    assert pairs.height == 48
    # The one that is outside is named in docs/what-if.md.
    outside = pairs.filter(~pl.col("inside"))
    assert outside.select("base", "changed").rows() == [("citus-w8-t32-load", "citus-w1-t32-load")]


def test_the_recorded_cluster_would_gain_from_owner_routing(recorded: WhatIfStudy) -> None:
    predictions = {(one.base, one.change): one for one in recorded.predictions}
    for base in ("citus-w4-t32-c", "citus-w4-t32-load"):
        found = predictions[base, "owner-routing"]
        assert 1.2 < found.ratio.estimate < 1.8
        assert found.terms["after_us"].sum() == pytest.approx(found.response_us.estimate)
    assert {"text", "pool-size=16"} == set(recorded.refused["change"])


def test_a_study_asks_the_same(demonstration: Dataset, recorded: WhatIfStudy) -> None:
    (known,) = (one for one in recorded.predictions if (one.base, one.change) == ("citus-w4-t32-c", "coordinator"))
    found = ca.study(demonstration).what_if("coordinator", at="citus-w4-t32-c")
    assert found.to_dict() == known.to_dict()
    assert [trace.name for trace in found.plot().data] == ["predicted", "measured"]


def test_the_command_prints_what_the_page_quotes(demonstration_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = blocks_run_by(__file__)
    (command,) = commands_of(block)
    words = shlex.split(command.replace("data/recorded", str(demonstration_path)))[1:]
    page = (ROOT / block.page).read_text(encoding="utf-8")
    for more in ([], ["--json"]):
        with pytest.raises(SystemExit) as end:
            cli.main([*words, *more])
        assert not end.value.code
        printed = capsys.readouterr().out
        sentences = json.loads(printed)["sentences"] if more else printed.splitlines()
        assert f"> {sentences[0]} {sentences[1]}" in page


REFUSALS = {
    "threads=1000": "threads=1000 is more than 2 times beyond what was measured (2 to 24)",
    "threads=12": "threads=12 changes nothing",
    "binary": "binary changes nothing",
    "workers=8": "workers=8 is more than 2 times beyond",
    "node-cpu=x2": "the CPU of the nodes of t12 was neither stated nor sampled",
}


@pytest.mark.parametrize(("change", "reason"), REFUSALS.items())
def test_what_traces_cannot_know_is_refused_in_a_sentence(tables: Tables, change: str, reason: str) -> None:
    with pytest.raises(InsufficientDataError, match=reason.replace("(", r"\(").replace(")", r"\)")):
        what_if(tables, change, at=f"t{AT}")


def test_without_local_executions_owner_routing_is_not_predicted(tables: Tables) -> None:
    remote = tables["statements"].filter(executed="remote")
    with pytest.raises(InsufficientDataError, match="no SELECT that was executed by the node that received it"):
        what_if({**tables, "statements": remote}, "owner-routing", at=f"t{AT}")


@pytest.mark.parametrize("simple", [True, False])
def test_local_writes_are_not_moved_where_their_times_contain_commits(tables: Tables, simple: bool) -> None:
    kind = pl.lit("insert").cast(TABLES["statements"]["statement_kind"].dtype)
    local = (pl.col("executed").cast(pl.String) == "local") & simple
    writes = tables["statements"].with_columns(statement_kind=kind, includes_commit=local)
    changed = {**tables, "statements": writes}
    if not simple:
        assert what_if(changed, "owner-routing", at=f"t{AT}").ratio.estimate > 1
        return
    with pytest.raises(InsufficientDataError, match=r"INSERTs that a node executed itself contain their commits"):
        what_if(changed, "owner-routing", at=f"t{AT}")
    assert what_if(changed, "threads=16", at=f"t{AT}").ratio.estimate > 0


def test_two_configurations_without_sampled_cpu_are_not_enough(tables: Tables) -> None:
    two = tables["runs"].filter(pl.col("resource").is_in(["t6", "t12"]))
    with pytest.raises(InsufficientDataError, match="how much of the response time is waiting for processors"):
        what_if({**tables, "runs": two}, "owner-routing", at=f"t{AT}")


def test_sampled_cpu_of_single_nodes_makes_up_for_other_configurations() -> None:
    """Of one configuration alone, twice the CPU gains what the utilisation of its nodes leaves to be gained."""
    cluster = Cluster(3)
    seen = simulate(cluster, 5)
    assert 0.5 < min(seen.busy) < max(seen.busy) < 0.9
    tables = make_tables({cluster: seen}, with_cpu=True)
    found = what_if(tables, "node-cpu=x2")
    faster = replace(cluster, local_us=150.0, parent_us=125.0, child_us=100.0)
    truth = measure_ops_s(simulate(faster, 6, operations=8_000))
    assert found.throughput_ops_s.low < truth < found.throughput_ops_s.high
    assert found.left_out.is_empty()
    assert any("no configuration could be left out" in warning for warning in found.warnings)
    one_node = tables["cpu_samples"].filter(node="1")
    with pytest.raises(InsufficientDataError, match="the CPU of single nodes was not sampled"):
        what_if({**tables, "cpu_samples": one_node}, "node-cpu=x2")


def test_several_readings_of_a_configuration_are_asked_about(tables: Tables) -> None:
    with pytest.raises(UsageError, match="4 configurations have traced statements: t2, t6, t12 and t24") as caught:
        what_if(tables, "owner-routing")
    assert "--at" in str(caught.value)
    with pytest.raises(UnknownNameError):
        what_if(tables, "owner-routing", at="t99")
    for at in ("threads=6", "t6", "workers=2,threads=6"):
        assert what_if(tables, "owner-routing", at=at).base == "t6"


def test_configurations_of_one_resource_are_told_apart(tables: Tables) -> None:
    one = {name: frame.with_columns(resource=pl.lit("all")) if "resource" in frame.columns and frame.height else frame
           for name, frame in tables.items()}  # fmt: skip
    found = what_if(one, "owner-routing", at="threads=12")
    assert found.base == "all (threads=12)"
    assert what_if(one, "owner-routing", at="all (threads=12)").to_dict() == found.to_dict()
    with pytest.raises(UsageError, match="4 configurations have traced statements and fit all"):
        what_if(one, "owner-routing", at="all")


def test_nodes_that_share_a_machine_are_not_taken_for_processors(tables: Tables) -> None:
    nodes = [{"resource": f"t{n}", "node": str(node), "host": "127.0.0.1"} for n in MEASURED for node in (1, 2)]
    crowded = {**tables, "nodes": TABLES["nodes"].conform(pl.DataFrame(nodes))}
    with pytest.raises(InsufficientDataError, match="share the processors of a machine"):
        what_if(crowded, "workers=4", at=f"t{AT}")
    assert what_if(crowded, "threads=24", at=f"t{AT}").counterpart == "t24"


def test_a_single_server_is_no_cluster(tables: Tables) -> None:
    alone = tables["runs"].with_columns(workers=pl.lit(0, pl.Int32))
    found = study_what_if({**tables, "runs": alone}, USUAL_QUESTION)
    assert found.predictions == ()
    assert found.refused["reason"].str.contains("is no cluster").all()
    assert found.refused.height
    with pytest.raises(InsufficientDataError, match="is no cluster"):
        what_if({**tables, "runs": alone}, "threads=24", at=f"t{AT}")


def test_clients_with_a_rate_of_their_own_are_no_closed_loop(tables: Tables) -> None:
    limited = tables["runs"].with_columns(rate_limited=pl.lit(value=True), target_ops_s=pl.lit(100.0))
    with pytest.raises(InsufficientDataError, match="send at a rate of their own"):
        what_if({**tables, "runs": limited}, "owner-routing", at=f"t{AT}")


@pytest.mark.parametrize("text", ["owner", "threads", "threads=0", "threads=2.5", "node-cpu=xx", "owner-routing=3"])
def test_changes_that_cannot_be_read(text: str) -> None:
    with pytest.raises(UsageError):
        parse_change(text)


def test_throughputs_are_those_of_exact_mean_value_analysis() -> None:
    """The approximation is within some per cent of the exact recursion, and the bound is the asymptotic one."""
    mix = (KindMix("select", 1.0, 0.0),)
    active = {("select", "parent"): 300.0, ("select", "child binary"): 400.0}
    load = Load("coordinator", 2, 8, 1.0, 1e9, "binary", mix, connects=False)
    demands = {"coordinator": 300.0, "one": 200.0, "two": 200.0}
    point = np.array([0.0, 0.0, 0.0, 500.0, 0.0])
    for threads in (1, 2, 8, 64):
        one = replace(load, threads=threads)
        solved = scaling.mva(demands, threads, think=500.0)
        found = np.exp(_Equations([one], active, "mean value analysis").log_throughputs(point)[0])
        assert found == pytest.approx(solved.throughput * 1e6, rel=0.05)
        bound = scaling.asymptotic_bounds(demands, threads, 500.0).throughput_high_ops_s[0]
        assert np.exp(_Equations([one], active, "asymptotic bound").log_throughputs(point)[0]) == pytest.approx(bound)


@pytest.fixture(scope="module")
def configurations(tables: Tables) -> tuple[TracedConfiguration, ...]:
    return _read(tables)


def _read(tables: Tables) -> tuple[TracedConfiguration, ...]:
    source = resolve_source(tables)
    assert not isinstance(source, pl.DataFrame)
    return read_traced_configurations(source, USUAL_QUESTION)


def test_work_that_no_trace_shows_is_found_where_the_share_of_remote_statements_differs(
    configurations: tuple[TracedConfiguration, ...],
) -> None:
    """What a message costs beside the traced times is fitted, and goes with remote statements."""
    active = {("select", "local"): 200.0, ("select", "parent"): 200.0, ("select", "child binary"): 200.0}
    (times,) = configurations[0].statements
    point = np.array([0.0, 0.0, 0.005, 0.0, 150.0])
    made = [
        replace(
            configurations[0],
            name=f"w{workers}-t{threads}",
            workers=workers,
            threads=threads,
            cores=0.2,
            reconnects=0.0,
            statements=(replace(times, local=60 // workers, remote=60 - 60 // workers),),
        )
        for workers in (2, 4, 8)
        for threads in (8, 32)
    ]
    rates = np.exp(
        _Equations([describe_load(one) for one in made], active, "mean value analysis").log_throughputs(point)
    )
    measured = [replace(one, throughput_ops_s=np.array([rate])) for one, rate in zip(made, rates, strict=True)]
    model = fit_closed_loop(measured, "mean value analysis", active)
    base = describe_load(made[2])
    routed = replace(base, entry="owner", statements=(KindMix("select", 1.0, 1.0),))
    truth = np.exp(_Equations([routed], active, "mean value analysis").log_throughputs(point)[0])
    # Drawn weakly towards no such work, which six configurations nearly determine.
    assert model.predict(routed) == pytest.approx(truth, rel=0.1)
    assert model.message_us > 30.0


def test_connections_are_renewed_at_the_end_of_their_lifetime(tables: Tables) -> None:
    name = "settings.citus.max_cached_connection_lifetime"
    stated = {"resource": ["t2", "t6", "t12"], "name": [name] * 3, "value": ["3s", "1500", "-1"]}
    settings = TABLES["settings"].conform(pl.DataFrame(stated))
    found = {one.name: one for one in _read({**tables, "settings": settings})}
    assert {name: one.lifetime_s for name, one in found.items()} == {"t2": 3, "t6": 1.5, "t12": np.inf, "t24": 600}
    loads = {name: describe_load(one) for name, one in found.items()}
    assert loads["t2"].connections_per_peer == 1 + 30 / 3
    assert replace(loads["t2"], connects=False).connections_per_peer == 0.0
    active = pool_active_times(list(found.values()))
    # Sessions start once; their connections are made eleven times.
    once, often = (replace(loads["t2"], lifetime_s=seconds).spread(active)[2, 1] for seconds in (np.inf, 3.0))
    sessions = loads["t2"].threads / loads["t2"].workers
    assert often - sessions == pytest.approx(11 * (once - sessions))


def test_a_place_that_was_traced_in_slow_configurations_alone_is_not_slow(
    configurations: tuple[TracedConfiguration, ...],
) -> None:
    (times,) = configurations[0].statements

    def take(factor: float, protocol: Protocol) -> TracedConfiguration:
        active = {"local": 100.0 * factor, "parent": 200.0 * factor, "child": 50.0 * factor}
        statements = (replace(times, active_us=active),)
        return replace(configurations[0], protocol=protocol, statements=statements, connection_active_us=0.0)

    found = pool_active_times([take(1.0, "binary"), take(1.0, "binary"), take(3.0, "text")])
    assert found["select", "child text"] == pytest.approx(found["select", "child binary"])
    assert found["select", "parent"] == pytest.approx(2 * found["select", "local"])


def test_results_are_text_where_the_server_says_so_although_children_with_parameters_look_binary(
    tables: Tables,
) -> None:
    stated = {"resource": ["t2"], "name": ["settings.citus.enable_binary_protocol"], "value": ["off"]}
    found = _read({**tables, "settings": TABLES["settings"].conform(pl.DataFrame(stated))})
    assert {one.name for one in found if one.protocol == "text"} == {"t2"}
